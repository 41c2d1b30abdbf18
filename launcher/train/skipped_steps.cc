#include "launcher/train/skipped_steps.h"

#include <fmt/core.h>

#include <cmath>

namespace trireme {
namespace {

// Applies at a scale of 1 or less, where gradients are not scaled up.
constexpr const char* kOverflowsOnItsOwn =
    "the network overflows fp16 without loss scaling: try precision.mode = \"bf16\", some ops in fp32 "
    "(precision.ops), or a lower optimizer.lr";

bool is_scaled(const PrecisionSection& precision) {
  return precision.mode == PrecisionMode::kFp16 && precision.loss_scale.kind != LossScaleConfig::Kind::kOff;
}

bool is_dynamic(const PrecisionSection& precision) {
  return is_scaled(precision) && precision.loss_scale.kind == LossScaleConfig::Kind::kDynamic;
}

float next_scale(const StepResult& result, const PrecisionSection& precision) {
  return is_dynamic(precision) ? result.loss_scale * static_cast<float>(precision.scale_backoff)
                               : result.loss_scale;
}

/// The number of skipped steps after this one until the scale reaches 1, if unscaled gradients overflow.
int skips_until_one(const StepResult& result, const PrecisionSection& precision) {
  int skips = 0;
  for (float scale = next_scale(result, precision); scale > 1.0f; ++skips) {
    scale *= static_cast<float>(precision.scale_backoff);
  }
  return skips;
}

/// Why the last of max_skips consecutive steps was skipped, and what to do.
std::string advice_on_skips(const StepResult& result, const PrecisionSection& precision) {
  if (!is_dynamic(precision)) return "try a smaller precision.loss_scale, or \"dynamic\"";
  if (result.loss_scale > 1.0f) {
    const int skips = skips_until_one(result, precision);
    return fmt::format(
        "the scale is still falling, and would reach 1 {}: raise precision.max_skips = {}, or lower "
        "precision.scale_init = {}",
        skips == 0 ? "in the next step" : fmt::format("after {} more", skips), precision.max_skips,
        precision.scale_init);
  }
  return kOverflowsOnItsOwn;
}

/// The same for a scale that would fall below its floor.
std::string advice_on_floor(const StepResult& result) {
  return result.loss_scale > 1.0f ? "lower precision.min_scale, as the scale may fall to 1"
                                  : kOverflowsOnItsOwn;
}

std::string describe(const std::optional<NonFiniteGradient>& culprit) {
  if (!culprit) return "a gradient is not finite";
  return fmt::format("the gradient of {} is not finite", to_string(*culprit));
}

}  // namespace

std::string reason_to_stop(const StepResult& result, const PrecisionSection& precision) {
  if (!is_scaled(precision)) {
    const bool fp16 = precision.mode == PrecisionMode::kFp16;
    if (!result.skipped && (fp16 || std::isfinite(result.loss))) return "";
    return fmt::format(
        "the loss is {} and the gradient norm {}: {}", result.loss, result.grad_norm,
        fp16 ? "set precision.loss_scale = \"dynamic\", or precision.mode = \"bf16\""
             : "try a lower optimizer.lr, more optimizer.warmup_steps or a smaller optimizer.grad_clip");
  }
  if (!result.skipped) return "";
  if (result.skipped_in_a_row >= precision.max_skips) {
    return fmt::format(
        "{} consecutive steps were skipped (precision.max_skips), the last one with a loss scale of {}: {}",
        result.skipped_in_a_row, result.loss_scale, advice_on_skips(result, precision));
  }
  if (is_dynamic(precision) && next_scale(result, precision) < static_cast<float>(precision.min_scale)) {
    return fmt::format("the loss scale falls from {} below precision.min_scale = {}: {}", result.loss_scale,
                       precision.min_scale, advice_on_floor(result));
  }
  return "";
}

std::string reason_to_fail_at_end(const StepResult& result, const PrecisionSection& precision) {
  if (!is_scaled(precision) || std::isfinite(result.loss)) return "";
  return fmt::format(
      "the loss of the last step is {}, which no loss scale can repair: {}. An earlier checkpoint may be "
      "usable",
      result.loss, kOverflowsOnItsOwn);
}

std::string describe_skip(const StepResult& result, const PrecisionSection& precision,
                          const std::optional<NonFiniteGradient>& culprit) {
  std::string text = fmt::format("step {} is skipped", result.step);
  if (is_dynamic(precision)) {
    text += fmt::format(", loss scale {} -> {}", result.loss_scale, next_scale(result, precision));
  } else if (is_scaled(precision)) {
    text += fmt::format(", loss scale {}", result.loss_scale);
  }
  return text + ": " + describe(culprit);
}

std::string describe_updates(std::int64_t steps, std::int64_t updates) {
  if (updates == steps) return "";
  const std::int64_t skipped = steps - updates;
  return fmt::format(" with {} update{} ({} {} skipped)", updates, updates == 1 ? "" : "s", skipped,
                     skipped == 1 ? "step was" : "steps were");
}

std::string describe_no_update(std::int64_t steps, const LossScaleState& scale,
                               const PrecisionSection& precision) {
  std::string advice = "look at the warnings of the skipped steps";
  if (is_scaled(precision) && !is_dynamic(precision)) {
    advice = "set a smaller precision.loss_scale, or \"dynamic\"";
  } else if (is_scaled(precision) && scale.scale > 1.0f) {
    advice = fmt::format(
        "lower precision.scale_init = {} (the default is {}), or run more steps, as the scale is still "
        "falling",
        precision.scale_init, PrecisionSection().scale_init);
  } else if (is_scaled(precision)) {
    advice = kOverflowsOnItsOwn;
  }
  const std::string now =
      is_scaled(precision) ? fmt::format(", and the loss scale is {} now", scale.scale) : "";
  return fmt::format(
      "no update was made: all {} steps were skipped{}; the model is unchanged: {}; then start again with "
      "checkpoint.resume = \"never\"",
      steps, now, advice);
}

}  // namespace trireme
