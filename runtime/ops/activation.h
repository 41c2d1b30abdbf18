// y = act(x), as a separate pass: for places where no matrix product can apply it.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// The result has the dtype of x. Backward saves x.
Tensor activation(Context& ctx, const Tensor& input, Activation activation);

}  // namespace trireme::ops
