// The operands of fp8 products: see [Note: fp8] in runtime/base/fp8.h.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// A tensor, approximately codes * inverse_scale.
struct Quantized {
  Tensor codes;          // e4m3; e5m2 for output gradients
  Tensor inverse_scale;  // [] fp32
};

/// True if products with the weight read 8 bits.
bool multiplies_in_fp8(Context& ctx, ParamRef weight);

/// Codes of an operand of `weight`, with the scale from its history. Writes x's maximum as this micro-batch's
/// sample. Nothing is recorded. Call only where multiplies_in_fp8().
Quantized quantize(Context& ctx, const Tensor& x, ParamRef weight, Fp8Operand operand);

}  // namespace trireme::ops
