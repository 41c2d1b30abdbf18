// Softmax and cross-entropy in one pass. The gradient overwrites the logits.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct CrossEntropyOptions {
  float label_smoothing =
      0.0f;               // in [0, 1): share of a target spread evenly over all V (Szegedy et al. 2016)
  Tensor target_weights;  // fp32, shaped like the targets, or undefined: all 1
};

/// logits [..., V]. targets int32 has K elements per row of logits, consecutive for each row (negative:
/// ignored). Returns the scalar inv_num_targets * sum of target_weight * -log softmax(logits)[target].
/// Takes the logits: pass them with std::move. While recording, their memory becomes the gradient (a copy is
/// made if it is shared), so no second [..., V] tensor exists. The gradient, not the loss, is multiplied by
/// ctx.gradient_scale, before it is rounded to the dtype of the logits.
Tensor softmax_cross_entropy(Context& ctx, Tensor logits, const Tensor& targets, float inv_num_targets,
                             const CrossEntropyOptions& options = {});

}  // namespace trireme::ops
