// The gated activation of Llama's MLP (Shazeer 2020).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Input [..., 2 F], packed [gate | up] -> [..., F]: gate / (1 + e^-gate) * up. Backward saves the input and
/// may overwrite it with the gradient.
Tensor swiglu(Context& ctx, const Tensor& input);

}  // namespace trireme::ops
