// The gated activation of diffusion transformers' MLP (Shazeer 2020).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Input [..., 2 F], packed [up | gate] -> [..., F]: up * GELU(gate), the exact GELU. The policy of `swiglu`
/// in precision.h applies. Backward saves the input and computes the GELU again.
Tensor geglu(Context& ctx, const Tensor& input);

}  // namespace trireme::ops
