// The same elements under another shape.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// x under `shape`, which has the same number of elements; no memory is copied. Backward reshapes the
/// gradient back.
Tensor reshape(Context& ctx, const Tensor& x, const Shape& shape);

}  // namespace trireme::ops
