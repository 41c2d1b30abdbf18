// Normalisation over the last dim: layer norm (Ba et al. 2016) and RMS norm (Zhang & Sennrich 2019).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Input [..., C], gamma [C], beta [C] -> [..., C]. Statistics in fp32, biased variance.
/// Backward saves the input and two floats a row, and adds into a gradient that is already there (the
/// residual branch).
Tensor layer_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta, float epsilon = 1e-5f);

/// x / sqrt(mean of x^2 + epsilon) * gamma: nothing is subtracted or added. Backward saves the input and one
/// float a row.
Tensor rms_norm(Context& ctx, const Tensor& input, ParamRef gamma, float epsilon = 1e-5f);

}  // namespace trireme::ops
