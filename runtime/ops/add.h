// Elementwise sum.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// a + b, of one shape and dtype. Backward saves nothing.
Tensor add(Context& ctx, const Tensor& a, const Tensor& b);

}  // namespace trireme::ops
