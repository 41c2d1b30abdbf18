// y = act(x), where no matrix product ends in it.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// In the dtype of x. Backward saves x.
Tensor activation(Context& ctx, const Tensor& input, Activation activation);

}  // namespace trireme::ops
