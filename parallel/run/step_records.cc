#include "parallel/run/step_records.h"

#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {

StepRecords::StepRecords(const Context& ctx, std::int64_t num_losses) : num_losses_(num_losses) {
  const std::int64_t num_scalars = kNumScalars + (ctx.precision.has_fp8_products() ? 1 : 0);
  for (Slot& slot : slots_) {
    slot.values = ctx.empty({num_losses + num_scalars}, DType::kFloat32, MemoryCategory::kOptimizer);
    if (ctx.backend->make_host_copy == nullptr) continue;
    slot.host = ctx.backend->make_host_copy(
        ctx.exec, static_cast<std::size_t>(slot.values.num_elems()) * sizeof(float));
  }
}

void StepRecords::add(const Context& ctx, const StepResult& known, const Tensor& losses,
                      const Tensor& grad_norm, const LossScaler& scaler, const Tensor& num_clipped) {
  TRIREME_CHECK(pending_.size() < kMaxPending, "{} steps are in flight: collect the oldest one first",
                pending_.size());
  const Slot& slot = slots_[next_slot_];
  const auto copy = [&](std::int64_t at, const Tensor& from) {
    const Tensor to = slot.values.slice(at, from.shape());
    ctx.backend->copy(ctx.exec, {to.address(), from.dtype(), from.shape()}, from);  // int32 bits unchanged
  };
  copy(0, losses);
  copy(num_losses_, grad_norm);
  const bool scaled = scaler.used_scale().defined();
  if (scaled) copy(num_losses_ + 1, scaler.used_scale());
  copy(num_losses_ + 2, scaler.skip());
  copy(num_losses_ + 3, scaler.skipped_in_a_row());
  if (num_clipped.defined()) copy(num_losses_ + kNumScalars, num_clipped);
  if (slot.host) slot.host->start(ctx.exec, slot.values);
  pending_.push_back(
      {.known = known, .slot = next_slot_, .scaled = scaled, .counts_clipped = num_clipped.defined()});
  next_slot_ = (next_slot_ + 1) % kMaxPending;
}

StepRecords::Record StepRecords::take(const Context& ctx) {
  TRIREME_CHECK(!pending_.empty(), "no step is in flight whose result could be collected");
  const Pending pending = pending_.front();
  pending_.pop_front();
  const Slot& slot = slots_[pending.slot];
  std::vector<float> values(static_cast<std::size_t>(slot.values.num_elems()));
  if (slot.host) {
    std::memcpy(values.data(), slot.host->wait(), values.size() * sizeof(float));
  } else {
    ctx.backend->copy_to_host(ctx.exec, values.data(), slot.values);
  }
  const float* scalars = values.data() + num_losses_;
  Record record{.result = pending.known};
  record.result.grad_norm = scalars[0];
  if (pending.scaled) record.result.loss_scale = scalars[1];
  std::int32_t ints[2];  // skip, in a row
  std::memcpy(ints, scalars + 2, sizeof ints);
  record.result.skipped = ints[0] != 0;
  record.result.skipped_in_a_row = ints[1];
  if (pending.counts_clipped) {
    std::memcpy(&record.result.clipped, scalars + kNumScalars, sizeof record.result.clipped);
  }
  values.resize(static_cast<std::size_t>(num_losses_));
  record.losses = std::move(values);
  return record;
}

}  // namespace trireme
