// Mean squared error, weighted by sample. The gradient overwrites the prediction.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Prediction [B, ...], target fp32 of the same shape (another dtype is cast), sample_weights [B] fp32 or
/// undefined (all 1). Returns the scalar inv_num_targets * sum over b of sample_weights[b] * mean over the
/// elements of sample b of (prediction - target)^2, in fp32, with sums in an order that depends on shapes
/// alone. Takes the prediction: pass it with std::move. While recording, its memory becomes the gradient (a
/// copy is made if it is shared). The gradient, not the loss, is multiplied by ctx.gradient_scale, before it
/// is rounded to the dtype of the prediction. The target gets no gradient.
Tensor squared_error(Context& ctx, Tensor prediction, const Tensor& target, const Tensor& sample_weights,
                     float inv_num_targets);

/// The mean over the elements of each sample of (prediction - target)^2 -> [B] fp32, without gradient.
Tensor sample_squared_errors(Context& ctx, const Tensor& prediction, const Tensor& target);

}  // namespace trireme::ops
