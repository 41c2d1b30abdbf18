// max(0, x).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// max(0, x), in x's dtype. Backward saves the result. Behind a batch norm, BatchNormOptions::rectify saves a
/// pass.
Tensor relu(Context& ctx, const Tensor& x);

}  // namespace trireme::ops
