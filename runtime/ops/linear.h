// y = act(x W^T + b) + residual.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct LinearOptions {
  ParamRef bias;  // [N], or undefined
  Activation activation = Activation::kNone;
  Tensor residual;  // like the result, or undefined: added last, in the same pass
};

/// x [..., K], weight [N, K] -> [..., N].
/// Backward saves x and, with an activation, its argument.
Tensor linear(Context& ctx, const Tensor& x, ParamRef weight, const LinearOptions& options = {});

}  // namespace trireme::ops
