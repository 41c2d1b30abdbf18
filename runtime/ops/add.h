// Elementwise sum.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// left + right, of one shape, in the wider of their dtypes (see precision.h). Backward saves nothing.
Tensor add(Context& ctx, const Tensor& left, const Tensor& right);

}  // namespace trireme::ops
