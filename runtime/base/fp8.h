// The two 8-bit formats of the OCP specification (OFP8, 2023) and the scale of a tensor. Shared by all
// backends, so that all give the same bits.
//
// [Note: fp8] With precision mode fp8 the products of a block's linear layers read 8 bits:
//     forward         y  = x w^T    x and w in e4m3 (4 exponent bits, 3 of mantissa, up to 448)
//     input gradient  dx = dy w     dy in e5m2 (5 exponent bits, 2 of mantissa, up to 57344)
//     weight gradient dw = dy^T x
// summed in fp32. Everything else is as in bf16: norms, attention, the product that computes logits, biases
// and their gradients, results of products, masters. ParameterSpec::allows_fp8 selects the weights.
//
// A tensor t is stored as codes q = round(t s) and 1/s. The scale s is the largest power of two for which
// amax * s is at most the format's largest number. amax is the largest magnitude in the last steps (delayed
// scaling, as in NVIDIA's Transformer Engine). Each operand of each weight has a history of kFp8History
// maxima, newest first. In a step every micro-batch records the maximum of its tensor. At the end of the step
// the largest over all micro-batches enters the history. A maximum has the same bits in any order, and the
// history does not change during a step, so scales are equal on every layout and in recompute. A skipped step
// leaves the history unchanged. While the history is empty (all zeros: in the first step) a tensor's own
// maximum is used.
//
// Libraries sum fp8 products only along the rows of both operands. So each operand of two products has codes
// in two orders: x for forward and, transposed, for the weight gradient; dy for the input gradient and,
// transposed, for the weight gradient; w for forward and, transposed, for the input gradient. One pass over
// the numbers writes both orders. The scale is known beforehand, so the kernel that computes the numbers can
// write the codes instead (CodesOutput in kernels/backend_ops.h), as SwiGLU and its gradient do. A weight's
// codes are made once a step: [Note: kept codes] in parallel/run/stage_compute.h.
//
// Scaling by a power of two is exact, so the product of codes times both 1/s is the product of the
// represented numbers, whether the factors are applied before the sum or after it.
//
// Rounding is to nearest, ties to even. Finite values saturate: they are clipped, and StepResult counts the
// clipped tensors. Non-finite values stay non-finite (e4m3 has no infinity: NaN), so that an overflow is
// detected as in mode bf16.
#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"

#if defined(__CUDACC__)
#define TRIREME_ANY_DEVICE __host__ __device__
#else
#define TRIREME_ANY_DEVICE
#endif

namespace trireme {

/// Number of maxima in a scale's history. Together with the maximum that set the last step's scale they fill
/// one cache line.
inline constexpr int kFp8History = 15;
/// Floats of a history: the maxima, newest first, then the maximum that set the scale of the last step (0:
/// none).
inline constexpr int kFp8HistoryElems = kFp8History + 1;

struct Fp8Format {
  int mantissa_bits;
  int bias;
  int top_exponent;        // the largest number is 0.875 * 2^top_exponent
  std::uint32_t largest;   // its code
  std::uint32_t infinity;  // code; NaN where the format has no infinity
  std::uint32_t nan;       // code
};
inline constexpr Fp8Format kE4m3{3, 7, 9, 0x7E, 0x7F, 0x7F};
inline constexpr Fp8Format kE5m2{2, 15, 16, 0x7B, 0x7C, 0x7E};

constexpr Fp8Format fp8_format(DType dtype) {
  return dtype == DType::kE4m3 ? kE4m3 : kE5m2;
}

namespace fp8_detail {
TRIREME_ANY_DEVICE constexpr std::uint32_t word_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
TRIREME_ANY_DEVICE constexpr float float_of(std::uint32_t word) {
  return __builtin_bit_cast(float, word);
}
}  // namespace fp8_detail

/// 2^exponent, for exponents of normal fp32 numbers.
TRIREME_ANY_DEVICE constexpr float power_of_two(int exponent) {
  return fp8_detail::float_of(static_cast<std::uint32_t>(exponent + 127) << 23);
}

/// The code nearest to x: see [Note: fp8].
TRIREME_ANY_DEVICE constexpr std::uint8_t fp8_of(float x, Fp8Format format) {
  constexpr std::uint32_t kInfinityWord = 0x7F800000u;
  const std::uint32_t word = fp8_detail::word_of(x), magnitude = word & 0x7FFFFFFFu;
  const std::uint32_t sign = (word >> 24) & 0x80u;
  if (magnitude >= kInfinityWord)
    return static_cast<std::uint8_t>(sign | (magnitude > kInfinityWord ? format.nan : format.infinity));
  const int shift = 23 - format.mantissa_bits;
  const std::uint32_t smallest_normal = static_cast<std::uint32_t>(128 - format.bias) << 23;
  std::uint32_t code = 0;
  if (magnitude < smallest_normal) {
    // The last bit of `base` is one step of the subnormal codes, so the addition rounds.
    const float base = power_of_two(24 - format.bias - format.mantissa_bits);
    code = fp8_detail::word_of(fp8_detail::float_of(magnitude) + base) - fp8_detail::word_of(base);
  } else {
    const std::uint32_t rebias = static_cast<std::uint32_t>(127 - format.bias) << 23;
    code = (magnitude + ((1u << (shift - 1)) - 1u) + ((magnitude >> shift) & 1u) - rebias) >> shift;
  }
  return static_cast<std::uint8_t>(sign | (code > format.largest ? format.largest : code));
}

/// The value of a code.
TRIREME_ANY_DEVICE constexpr float float_of_fp8(std::uint8_t code, Fp8Format format) {
  const std::uint32_t magnitude = code & 0x7Fu, sign = (code & 0x80u) << 24;
  if (magnitude > format.largest) {
    const bool is_nan = format.infinity == format.nan || magnitude > format.infinity;
    return fp8_detail::float_of(sign | (is_nan ? 0x7FC00000u : 0x7F800000u));
  }
  const std::uint32_t exponent = magnitude >> format.mantissa_bits;
  const std::uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1u);
  const float step =
      power_of_two((exponent == 0 ? 1 : static_cast<int>(exponent)) - format.bias - format.mantissa_bits);
  const std::uint32_t whole = exponent == 0 ? mantissa : mantissa + (1u << format.mantissa_bits);
  const float value = static_cast<float>(whole) * step;
  return fp8_detail::float_of(fp8_detail::word_of(value) | sign);
}

/// The smallest c with amax <= 0.875 * 2^c, for a positive normal amax.
TRIREME_ANY_DEVICE constexpr int fp8_ceiling(float amax) {
  const std::uint32_t word = fp8_detail::word_of(amax);
  return static_cast<int>(word >> 23) - 126 + ((word & 0x7FFFFFu) > 0x600000u ? 1 : 0);
}

/// Exponent k of the scale 2^k; 0 if amax is 0 or not finite. Clamped to +-60, so that neither a scale nor
/// the product of two leaves fp32's range.
TRIREME_ANY_DEVICE constexpr int fp8_scale_exponent(float amax, Fp8Format format) {
  constexpr int kLimit = 60;
  if (!(amax > 0.0f && amax < power_of_two(127) * 2.0f)) return 0;
  const int k = format.top_exponent - fp8_ceiling(amax);
  return k > kLimit ? kLimit : k < -kLimit ? -kLimit : k;
}

/// True if a tensor with maximum `amax` was clipped in a step whose scale was set by `reference` (0: by amax
/// itself). Holds for both formats.
TRIREME_ANY_DEVICE constexpr bool fp8_was_clipped(float amax, float reference) {
  return reference > 0.0f && amax > reference &&
         fp8_scale_exponent(amax, kE5m2) < fp8_scale_exponent(reference, kE5m2);
}

/// The largest maximum of a history; 0 while it is empty.
TRIREME_ANY_DEVICE constexpr float fp8_reference(const float* history) {
  float largest = 0.0f;
  for (int i = 0; i < kFp8History; ++i) largest = history[i] > largest ? history[i] : largest;
  return largest;
}

/// Shifts the history by one step: `amax` enters, the oldest leaves. Returns true if the step was clipped.
TRIREME_ANY_DEVICE constexpr bool fp8_move_history(float* history, float amax) {
  const float reference = fp8_reference(history);
  for (int i = kFp8History - 1; i > 0; --i) history[i] = history[i - 1];
  history[0] = amax;
  history[kFp8History] = reference;
  return fp8_was_clipped(amax, reference);
}

}  // namespace trireme
