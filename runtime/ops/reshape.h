// The same elements under another shape.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// x under `shape`, which has as many elements; no memory is copied. Backward gives the gradient x's shape.
Tensor reshape(Context& ctx, const Tensor& x, const Shape& shape);

}  // namespace trireme::ops
