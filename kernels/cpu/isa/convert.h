// Row-wise conversion between fp32 and the elements of tensors. Uses conversion instructions where available,
// otherwise integer arithmetic. Both round to nearest, ties to even, overflow to infinity, keep denormals,
// and make NaN quiet while keeping its leading bits. So every instruction set gives the same bits.
#pragma once

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

inline std::uint32_t word_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
inline float float_of(std::uint32_t word) {
  return __builtin_bit_cast(float, word);
}

constexpr std::uint32_t kInfinityWord = 0x7F800000u;
constexpr std::uint32_t kQuietWord = 0x00400000u;
constexpr std::uint32_t kHalfWord = 0x3F000000u;  // 0.5f, whose last bit is worth 2^-24, as fp16's denormals
constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
constexpr std::uint32_t kBeyondFp16 = 0x47800000u;      // 65536
constexpr std::uint32_t kRebias = 0x38000000u;          // (127 - 15) << 23

inline std::uint16_t fp16_of(float x) {
  const std::uint32_t word = word_of(x), magnitude = word & 0x7FFFFFFFu;
  const std::uint32_t normal = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - kRebias) >> 13;
  const std::uint32_t denormal = word_of(float_of(magnitude) + 0.5f) - kHalfWord;
  std::uint32_t result = magnitude < kSmallestNormal ? denormal : normal;
  result = magnitude >= kBeyondFp16 ? 0x7C00u : result;
  result = magnitude > kInfinityWord ? 0x7E00u | ((magnitude >> 13) & 0x3FFu) : result;
  return static_cast<std::uint16_t>(result | ((word >> 16) & 0x8000u));
}

inline float float_of_fp16(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7FFFu, sign = (half & 0x8000u) << 16;
  const std::uint32_t normal = (magnitude << 13) + kRebias;
  const std::uint32_t denormal = word_of(float_of(kHalfWord + magnitude) - 0.5f);
  std::uint32_t result = magnitude < 0x400u ? denormal : normal;
  result = magnitude >= 0x7C00u ? normal + kRebias : result;
  result = magnitude > 0x7C00u ? result | kQuietWord : result;
  return float_of(result | sign);
}

inline std::uint16_t bf16_of(float x) {
  const std::uint32_t word = word_of(x);
  const std::uint32_t nearest = (word + 0x7FFFu + ((word >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (word >> 16) | 0x40u;
  return static_cast<std::uint16_t>((word & 0x7FFFFFFFu) > kInfinityWord ? nan : nearest);
}

/// Rounded to 10 mantissa bits; the type stays fp32.
inline float tf32_of(float x) {
  const std::uint32_t word = word_of(x);
  const std::uint32_t nearest = (word + 0xFFFu + ((word >> 13) & 1u)) & ~0x1FFFu;
  return float_of((word & 0x7FFFFFFFu) > kInfinityWord ? word | kQuietWord : nearest);
}

inline void read_fp16(const std::uint16_t* x, float* y, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    _mm512_storeu_ps(
        y + i, _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i))));
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  }
#endif
  for (; i < n; ++i) y[i] = float_of_fp16(x[i]);
}

inline void write_fp16(const float* x, std::uint16_t* y, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        _mm512_maskz_cvtps_ph(0xFFFF, _mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; ++i) y[i] = fp16_of(x[i]);
}

/// y = x, rounded to tf32 for kTf32.
inline void read_row(const void* x, Element element, float* y, std::int64_t n) {
  if (element == Element::kFp16) {
    read_fp16(static_cast<const std::uint16_t*>(x), y, n);
  } else if (element == Element::kBf16) {
    const auto* from = static_cast<const std::uint16_t*>(x);
    for (std::int64_t i = 0; i < n; ++i) y[i] = float_of(static_cast<std::uint32_t>(from[i]) << 16);
  } else if (element == Element::kTf32) {
    const auto* from = static_cast<const float*>(x);
    for (std::int64_t i = 0; i < n; ++i) y[i] = tf32_of(from[i]);
  } else {
    __builtin_memcpy(y, x, static_cast<std::size_t>(n) * sizeof(float));
  }
}

/// y = x rounded to the element type; kTf32 is stored as unrounded fp32.
inline void write_row(const float* x, Element element, void* y, std::int64_t n) {
  if (element == Element::kFp16) {
    write_fp16(x, static_cast<std::uint16_t*>(y), n);
  } else if (element == Element::kBf16) {
    auto* to = static_cast<std::uint16_t*>(y);
    for (std::int64_t i = 0; i < n; ++i) to[i] = bf16_of(x[i]);
  } else {
    __builtin_memcpy(y, x, static_cast<std::size_t>(n) * sizeof(float));
  }
}

constexpr bool is_16_bit(Element element) {
  return element == Element::kFp16 || element == Element::kBf16;
}

inline const void* advance(const void* from, Element element, std::int64_t elems) {
  return static_cast<const char*>(from) + elems * (is_16_bit(element) ? 2 : 4);
}
inline void* advance(void* from, Element element, std::int64_t elems) {
  return static_cast<char*>(from) + elems * (is_16_bit(element) ? 2 : 4);
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
