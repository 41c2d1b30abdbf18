// The gated activation of diffusion transformers' MLP, and of Gemma's (Shazeer 2020).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

enum class GegluForm : std::uint8_t {
  kUpGate,      // packed [up | gate], the exact GELU
  kGateUpTanh,  // packed [gate | up], the GELU with tanh
};

/// Input [..., 2 F] -> [..., F]: up * GELU(gate). The policy of `swiglu` in precision.h applies. Backward
/// saves the input and computes the GELU again.
Tensor geglu(Context& ctx, const Tensor& input, GegluForm form = GegluForm::kUpGate);

}  // namespace trireme::ops
