// The operands of fp8 products: see [Note: fp8] in runtime/base/fp8.h.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// A tensor is about codes * inverse_scale.
struct Quantized {
  Tensor codes;          // e4m3; of output gradients e5m2
  Tensor inverse_scale;  // [] fp32
};

/// True where products with the weight read 8 bits.
bool multiplies_in_fp8(Context& ctx, ParamRef weight);

/// Codes of an operand of `weight`, with the scale of its history; leaves x's maximum behind. Nothing is
/// recorded. Only where multiplies_in_fp8().
Quantized quantize(Context& ctx, const Tensor& x, ParamRef weight, Fp8Operand operand);

}  // namespace trireme::ops
