// Elementwise product.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// left * right, of one shape, in the wider of their dtypes (see precision.h). Gradients reach both. Backward
/// saves both.
Tensor mul(Context& ctx, const Tensor& left, const Tensor& right);

}  // namespace trireme::ops
