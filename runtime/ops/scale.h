// Multiplication by a constant.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// x * factor, of the same shape and dtype; products in fp32. Backward saves nothing.
Tensor scale(Context& ctx, const Tensor& x, float factor);

}  // namespace trireme::ops
