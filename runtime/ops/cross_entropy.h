// Softmax and cross-entropy in one pass that leaves the gradient where the logits were.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct CrossEntropyOptions {
  float label_smoothing =
      0.0f;               // in [0, 1): this part of a target is spread over all V (Szegedy et al. 2016)
  Tensor target_weights;  // fp32, like the targets, or undefined: all 1
};

/// logits [..., V], targets int32 with K times as many elements as logits has rows, the K of a row in
/// sequence (negative: ignored) -> scalar inv_num_targets * sum of target_weight * -log
/// softmax(logits)[target]. Takes the logits: hand them over with std::move. While recording, their memory
/// becomes the gradient (a copy is made if somebody else still shares it), so no second [..., V] tensor ever
/// exists. The gradient, not the loss, carries ctx.gradient_scale, before it is rounded to the dtype of the
/// logits.
Tensor softmax_cross_entropy(Context& ctx, Tensor logits, const Tensor& targets, float inv_num_targets,
                             const CrossEntropyOptions& options = {});

}  // namespace trireme::ops
