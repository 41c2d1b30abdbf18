// The gated activation of Llama's MLP (Shazeer 2020).
#pragma once

#include "runtime/ops/linear.h"

namespace trireme::ops {

/// Input [..., 2 F], packed [gate | up] -> [..., F]: gate / (1 + e^-gate) * up. Backward saves the input and
/// may overwrite it with the gradient.
Tensor swiglu(Context& ctx, const Tensor& input);

/// The linear layers around a swiglu, by their weights.
struct SwigluNeighbours {
  ParamRef writer;  // made the input, which nothing else reads, without bias, activation and residual
  ParamRef reader;  // the only reader of the result
};
/// The same. Results and gradients whose only reader is an fp8 product are computed as its codes, never as
/// numbers; the bits are equal.
LinearInput swiglu(Context& ctx, const Tensor& input, const SwigluNeighbours& neighbours);

}  // namespace trireme::ops
