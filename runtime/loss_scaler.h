// Loss scaling (Micikevicius et al. 2018) and the decision whether a step counts, on the device.
//
// [Note: loss scaling] fp16 gradients below 6e-8 vanish, so the loss's gradient is multiplied by a scale, and
// the update divides by it (in the clip coefficient). A scale that is too large shows as a gradient that is
// not finite: then the step is skipped. Nothing of this involves the host: the scale, the flag and the counts
// are tensors of one element; the norm that decides is the same on every rank, and so is everything here.
// In every mode a step whose gradient norm is not finite is skipped, so that no NaN reaches the state.
//
// The loss applies the scale to its gradient before that is rounded, the norm divides by it, and the update
// reads the flag (OptimizerScalars::skip). Rejected: a check after every backward, to name the gradient at
// once; it reads all gradients a second time in every step.
#pragma once

#include <cstdint>

#include "runtime/context.h"

namespace trireme {

struct LossScaleConfig {
  enum class Kind : std::uint8_t {
    kOff,      // the loss as it is; fp32, tf32 and bf16 need no more
    kStatic,   // `initial`, for ever
    kDynamic,  // GradScaler's rule: grows after clean steps, shrinks when a step is skipped
  };
  Kind kind = Kind::kOff;
  float initial = 65536.0f;
  float growth_factor = 2.0f;
  float backoff_factor = 0.5f;
  std::int32_t growth_interval = 2000;  // clean steps in a row until it grows
};

/// A copy of what the scaler knows between two steps: what a checkpoint keeps.
struct LossScaleState {
  float scale = 0.0f;  // of the next step; 0: not scaled, and restored as the configured first one
  std::int32_t clean_steps = 0;
  std::int32_t skipped_in_a_row = 0;
  std::int32_t updates = 0;  // steps that were not skipped: the t of AdamW's bias correction
  bool operator==(const LossScaleState&) const = default;
};

class LossScaler {
 public:
  /// A fresh state on the device. Throws Error(kInvalidInput) for numbers that make no sense (a scale that is
  /// not positive, growth below 1, backoff outside of (0, 1)).
  LossScaler(const Context& ctx, const LossScaleConfig& config);

  const LossScaleConfig& config() const { return config_; }

  /// Decides about the step whose (unscaled) gradient norm is `norm` [] fp32, and sets the scale of the next.
  void update(const Context& ctx, const Tensor& norm);
  /// In place of update(): skips the step for a reason that is none of the scale's, which stays with its
  /// counts.
  void leave_out(const Context& ctx);

  /// [] fp32: the factor of the gradients of the current step; undefined when scaling is off.
  const Tensor& scale() const { return scale_; }
  /// [] fp32: the factor of the step that update() decided about last; undefined when scaling is off.
  const Tensor& used_scale() const { return used_scale_; }
  /// [] int32, of the step that update() decided about last.
  const Tensor& skip() const { return skip_; }
  const Tensor& skipped_in_a_row() const { return skipped_in_a_row_; }
  /// [] int32: updates done, the current one included.
  const Tensor& updates() const { return updates_; }

  /// Waits for the device.
  LossScaleState read(const Context& ctx) const;
  /// The scale is kept as it is configured where it is not dynamic.
  void write(const Context& ctx, const LossScaleState& state);

 private:
  const LossScaleConfig config_;
  Tensor scale_, used_scale_, clean_steps_, skip_, skipped_in_a_row_, updates_;
};

}  // namespace trireme
