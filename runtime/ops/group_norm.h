// Normalisation over groups of channels (Wu & He 2018).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Input [B, ..., C], for example [B, H, W, C] or [B, T, C], weight and bias [C] -> the same shape, in x's
/// dtype. Each sample is normalised in `groups` groups of neighbouring channels, over all positions, in fp32
/// with the biased variance. `activation` may be kSilu, applied in the same pass. Backward saves the input
/// and two floats per sample and group. It adds into an existing gradient of the input (the residual branch).
/// The bits of a sample do not depend on the other samples. Throws Error(kInvalidInput) for shapes that do
/// not fit, and for other activations.
Tensor group_norm(Context& ctx, const Tensor& x, ParamRef weight, ParamRef bias, std::int64_t groups,
                  float epsilon, Activation activation = Activation::kNone);

}  // namespace trireme::ops
