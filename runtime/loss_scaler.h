// Loss scaling (Micikevicius et al. 2018) and the decision to skip a step, on the device.
//
// [Note: loss scaling] fp16 gradients below 6e-8 underflow, so the gradient of the loss is multiplied by a
// scale, and the update divides by it (in the clip coefficient). If the scale is too large, a gradient is not
// finite and the step is skipped. The decision needs no host: the scale, the flag and the counts are device
// tensors of one element. They are equal on every rank, because the gradient norm is. In every mode a step
// whose gradient norm is not finite is skipped, so that no NaN reaches the state.
//
// The loss applies the scale to its gradient before rounding it, the norm divides by the scale, and the
// update reads the flag (UpdateScalars::skip). Rejected: a check after every backward, to name the
// non-finite gradient at once. It would read all gradients a second time in every step.
#pragma once

#include <cstdint>

#include "runtime/context.h"

namespace trireme {

struct LossScaleConfig {
  enum class Kind : std::uint8_t {
    kOff,      // no scaling; enough for fp32, tf32 and bf16
    kStatic,   // constant `initial`
    kDynamic,  // GradScaler's rule: grows after clean steps, shrinks when a step is skipped
  };
  Kind kind = Kind::kOff;
  float initial = 65536.0f;
  float growth_factor = 2.0f;
  float backoff_factor = 0.5f;
  std::int32_t growth_interval = 2000;  // consecutive clean steps before the scale grows
};

/// A host copy of the scaler's state between two steps, as checkpoints save it.
struct LossScaleState {
  float scale = 0.0f;  // of the next step; 0: not scaled, or start at the configured initial scale
  std::int32_t clean_steps = 0;
  std::int32_t skipped_in_a_row = 0;
  std::int32_t updates = 0;  // steps that were not skipped: the t of AdamW's bias correction
  bool operator==(const LossScaleState&) const = default;
};

class LossScaler {
 public:
  /// A fresh state on the device. Throws Error(kInvalidInput) for a scale that is not positive, growth below
  /// 1, or backoff outside (0, 1).
  LossScaler(const Context& ctx, const LossScaleConfig& config);

  const LossScaleConfig& config() const { return config_; }

  /// Decides whether to skip the step whose (unscaled) gradient norm is `norm`, [] fp32, and sets the next
  /// scale.
  void update(const Context& ctx, const Tensor& norm);
  /// Replaces update() for a step that is skipped for a reason other than the scale. The scale and its counts
  /// keep their values.
  void leave_out(const Context& ctx);

  /// [] fp32: the factor of the gradients of the current step; undefined when scaling is off.
  const Tensor& scale() const { return scale_; }
  /// [] fp32: the factor of the step of the last update(); undefined when scaling is off.
  const Tensor& used_scale() const { return used_scale_; }
  /// [] int32, for the step of the last update().
  const Tensor& skip() const { return skip_; }
  const Tensor& skipped_in_a_row() const { return skipped_in_a_row_; }
  /// [] int32: updates done, the current one included.
  const Tensor& updates() const { return updates_; }

  /// Waits for the device.
  LossScaleState read(const Context& ctx) const;
  /// Restores `state`. If the scale is not dynamic, the configured scale is used.
  void write(const Context& ctx, const LossScaleState& state);

 private:
  const LossScaleConfig config_;
  Tensor scale_, used_scale_, clean_steps_, skip_, skipped_in_a_row_, updates_;
};

}  // namespace trireme
