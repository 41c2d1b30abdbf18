#include "parallel/step_records.h"

#include "runtime/base/error.h"

namespace trireme {

StepRecords::StepRecords(const Context& ctx, std::int64_t num_losses) {
  const auto make = [&](const Shape& shape, DType dtype) {
    return ctx.empty(shape, dtype, MemoryCategory::kOptimizer);
  };
  for (Slot& slot : slots_) {
    slot = {.losses = make({num_losses}, DType::kFloat32),
            .norm = make({}, DType::kFloat32),
            .scale = make({}, DType::kFloat32),
            .skip = make({}, DType::kInt32),
            .in_a_row = make({}, DType::kInt32)};
  }
}

void StepRecords::add(const Context& ctx, const StepResult& known, const Tensor& losses,
                      const Tensor& grad_norm, const LossScaler& scaler) {
  TRIREME_CHECK(pending_.size() < kMaxPending, "{} steps are under way: collect the oldest one first",
                pending_.size());
  const Slot& slot = slots_[next_slot_];
  const auto copy = [&](const Tensor& to, const Tensor& from) { ctx.backend->copy(ctx.exec, to, from); };
  copy(slot.losses, losses);
  copy(slot.norm, grad_norm);
  copy(slot.skip, scaler.skip());
  copy(slot.in_a_row, scaler.skipped_in_a_row());
  const bool scaled = scaler.used_scale().defined();
  if (scaled) copy(slot.scale, scaler.used_scale());
  pending_.push_back({.known = known, .slot = next_slot_, .scaled = scaled});
  next_slot_ = (next_slot_ + 1) % kMaxPending;
}

StepRecords::Record StepRecords::take(const Context& ctx) {
  TRIREME_CHECK(!pending_.empty(), "no step is under way whose result could be collected");
  const Pending pending = pending_.front();
  pending_.pop_front();
  const Slot& slot = slots_[pending.slot];
  Record record{.result = pending.known, .losses = ctx.to_host(slot.losses)};
  record.result.grad_norm = ctx.to_host(slot.norm)[0];
  if (pending.scaled) record.result.loss_scale = ctx.to_host(slot.scale)[0];
  std::int32_t skip = 0;
  ctx.backend->copy_to_host(ctx.exec, &skip, slot.skip);
  record.result.skipped = skip != 0;
  ctx.backend->copy_to_host(ctx.exec, &record.result.skipped_in_a_row, slot.in_a_row);
  return record;
}

}  // namespace trireme
