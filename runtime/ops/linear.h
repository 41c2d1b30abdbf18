// y = act(x W^T + b) + residual.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// What a linear layer is of one that is cut into chunks: see [Note: tensor chunks].
enum class LinearCut : std::uint8_t {
  kNone,
  kColumns,  // some of the outputs; the gradient of the input is a partial sum, in fp32
  kRows,     // some of the inputs; the result is a partial sum, in fp32, its gradient has the compute dtype
};

struct LinearOptions {
  ParamRef bias;  // [N], or undefined
  Activation activation = Activation::kNone;
  Tensor residual;  // like the result, or undefined: added last, in the same pass unless it is wider
  LinearCut cut = LinearCut::kNone;  // kRows has neither activation nor residual
};

/// Input [..., K], weight [N, K] -> [..., N], in the compute dtype (see precision.h).
/// Backward saves the input and, with an activation, its argument. In mode fp8, with a weight that allows it,
/// the input is saved as its codes, a byte an element and a scale: see [Note: fp8] in runtime/base/fp8.h.
/// Where the weight has an adapter, x (W + s B A)^T takes the place of x W^T, computed as x W^T + s (x A^T)
/// B^T: see [Note: adapters] in runtime/adapter.h.
Tensor linear(Context& ctx, const Tensor& input, ParamRef weight, const LinearOptions& options = {});

}  // namespace trireme::ops
