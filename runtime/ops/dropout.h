// Dropout whose mask is drawn again in backward instead of being stored (see [Note: random numbers]).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// keep ? input / (1 - p) : 0, plus `residual` where defined, in the wider of their dtypes. Dim 0 is the
/// sample. Without training or with p = 0 it is input (+ residual). Backward saves nothing.
Tensor dropout(Context& ctx, const Tensor& input, float p, const Tensor& residual = {});

}  // namespace trireme::ops
