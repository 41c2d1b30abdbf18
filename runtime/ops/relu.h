// max(0, x).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// max(0, x), in x's dtype. Backward saves the result. After a batch norm, BatchNormOptions::rectify
/// saves this pass.
Tensor relu(Context& ctx, const Tensor& x);

}  // namespace trireme::ops
