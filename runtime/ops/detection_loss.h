// The loss of an object detector without anchor boxes: SimOTA and the sums of YOLOX. The gradient overwrites
// the predictions.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

inline constexpr std::int64_t kMaxDetectionClasses =
    2043;  // kernels read a prediction of 2048 numbers at once

struct DetectionLossOptions {
  AnchorGrid grid;  // of the pictures
  float inv_num_targets = 1.0f;
};

struct DetectionLoss {
  Tensor loss, count;  // [] fp32; the count has no gradient
  Tensor parts;        // [B, kNumDetectionParts] fp32
  Tensor objects;      // [B, A] int32
};

/// Predictions [B, A, 5 + C], targets [B, M, 5] fp32 and l1_weights [B] fp32 or undefined: see
/// DetectionLossArgs, also for the results. Takes the predictions: pass them with std::move. While recording,
/// their memory becomes the gradient (a copy is made if it is shared). The gradient, not the loss, is
/// multiplied by ctx.gradient_scale. Throws Error(kInvalidInput) for shapes that do not match, and on the cpu
/// for a class of the targets that is not below C; other backends take it for no object.
DetectionLoss detection_loss(Context& ctx, Tensor predictions, const Tensor& targets,
                             const Tensor& l1_weights, const DetectionLossOptions& options);

}  // namespace trireme::ops
