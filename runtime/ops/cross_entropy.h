// Softmax and cross-entropy in one pass that leaves the gradient where the logits were.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// logits [..., V], targets int32 with as many elements as logits has rows (negative: ignored) -> scalar
/// loss_scale * sum of -log softmax(logits)[target].
/// Takes the logits: hand them over with std::move. While recording, their memory becomes the gradient (a
/// copy is made if somebody else still shares it), so no second [..., V] tensor ever exists. The gradient,
/// not the loss, carries ctx.gradient_scale, before it is rounded to the dtype of the logits.
Tensor softmax_cross_entropy(Context& ctx, Tensor logits, const Tensor& targets, float loss_scale);

}  // namespace trireme::ops
