// The operands of fp8 products: see [Note: fp8] in runtime/base/fp8.h.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Products sum along the rows of both operands, so they read codes as they are or transposed.
enum class CodeOrder : std::uint8_t { kRows = 1, kTurned = 2, kBoth = 3 };

/// True if products with the weight read 8 bits.
bool multiplies_in_fp8(Context& ctx, ParamRef weight);

/// Uninitialised codes of a tensor of `shape`, an operand of `weight`.
Fp8Codes empty_codes(Context& ctx, const Shape& shape, Fp8Operand operand, CodeOrder order);
/// Makes the kernel that computes the operand write `codes`, with the scale from the operand's history, and
/// its maximum as this micro-batch's sample. Call only where multiplies_in_fp8().
CodesOutput output_to(Context& ctx, const Fp8Codes& codes, ParamRef weight, Fp8Operand operand);

/// Codes of an operand that a kernel has computed already. Nothing is recorded.
Fp8Codes quantize(Context& ctx, const Tensor& x, ParamRef weight, Fp8Operand operand, CodeOrder order);
/// Codes of the weight with the working copy `w`, made once where StatisticResolver::kept_codes() keeps them.
/// Other orders than `order` may be undefined.
Fp8Codes weight_codes(Context& ctx, const Tensor& w, ParamRef weight, CodeOrder order);

}  // namespace trireme::ops
