#include "runtime/loss_scaler.h"

#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

Tensor scalar(const Context& ctx, DType dtype) {
  return ctx.zeros({}, dtype, MemoryCategory::kOptimizer);
}

template <class T>
void set(const Context& ctx, const Tensor& tensor, T value) {
  ctx.backend->copy_from_host(ctx.exec, tensor, &value);
}

template <class T>
T get(const Context& ctx, const Tensor& tensor) {
  T value{};
  ctx.backend->copy_to_host(ctx.exec, &value, tensor);
  return value;
}

void check(const LossScaleConfig& config) {
  TRIREME_CHECK(std::isfinite(config.initial) && config.initial > 0,
                "the loss scale must be positive and finite, got {}", config.initial);
  TRIREME_CHECK(
      config.growth_factor >= 1 && config.backoff_factor > 0 && config.backoff_factor < 1,
      "the loss scale must grow by a factor of at least 1 and shrink by one in (0, 1), got {} and {}",
      config.growth_factor, config.backoff_factor);
  TRIREME_CHECK(config.growth_interval >= 1, "the loss scale must grow after at least one clean step, got {}",
                config.growth_interval);
}

}  // namespace

LossScaler::LossScaler(const Context& ctx, const LossScaleConfig& config) : config_(config) {
  check(config);
  if (config.kind != LossScaleConfig::Kind::kOff) {
    scale_ = scalar(ctx, DType::kFloat32);
    used_scale_ = scalar(ctx, DType::kFloat32);
    clean_steps_ = scalar(ctx, DType::kInt32);
  }
  skip_ = scalar(ctx, DType::kInt32);
  skipped_in_a_row_ = scalar(ctx, DType::kInt32);
  updates_ = scalar(ctx, DType::kInt32);
  write(ctx, {});
}

void LossScaler::update(const Context& ctx, const Tensor& norm) {
  if (scale_.defined()) ctx.backend->copy(ctx.exec, used_scale_, scale_);
  ctx.run(UpdateLossScaleArgs{
      .norm = norm,
      .scale = scale_,
      .clean_steps = clean_steps_,
      .skip = skip_,
      .skipped_in_a_row = skipped_in_a_row_,
      .step = updates_,
      .growth_factor = config_.growth_factor,
      .backoff_factor = config_.backoff_factor,
      .growth_interval = config_.kind == LossScaleConfig::Kind::kDynamic ? config_.growth_interval : 0});
}

void LossScaler::leave_out(const Context& ctx) {
  if (scale_.defined()) ctx.backend->copy(ctx.exec, used_scale_, scale_);
  set(ctx, skip_, std::int32_t{1});
}

LossScaleState LossScaler::read(const Context& ctx) const {
  LossScaleState state{.skipped_in_a_row = get<std::int32_t>(ctx, skipped_in_a_row_),
                       .updates = get<std::int32_t>(ctx, updates_)};
  if (scale_.defined()) {
    state.scale = get<float>(ctx, scale_);
    state.clean_steps = get<std::int32_t>(ctx, clean_steps_);
  }
  return state;
}

void LossScaler::write(const Context& ctx, const LossScaleState& state) {
  set(ctx, skipped_in_a_row_, state.skipped_in_a_row);
  set(ctx, updates_, state.updates);
  if (!scale_.defined()) return;
  const bool dynamic = config_.kind == LossScaleConfig::Kind::kDynamic;
  set(ctx, scale_, dynamic && state.scale > 0 ? state.scale : config_.initial);
  set(ctx, clean_steps_, dynamic ? state.clean_steps : std::int32_t{0});
}

}  // namespace trireme
