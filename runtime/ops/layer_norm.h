// Layer normalisation over the last dim (Ba et al. 2016).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Input [..., C], gamma [C], beta [C] -> [..., C]. Statistics in fp32, biased variance.
/// Backward saves the input and two floats a row, and adds into a gradient that is already there (the
/// residual branch).
Tensor layer_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta, float epsilon = 1e-5f);

}  // namespace trireme::ops
