// Philox4x32-10 of runtime/base/rng.h, vectorised over counters. A test compares the two.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/cpu/isa/vector.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Counter words in the low halves of 64-bit lanes. The high halves hold leftovers of products.
constexpr std::int64_t kCounters = kLanes / 2;
typedef std::uint64_t Words __attribute__((vector_size(kCounters * sizeof(std::uint64_t))));

/// 64-bit products of the low halves. Plain C would compile to the slower full 64-bit multiplication.
inline Words product_of_low_halves(Words a, Words b) {
#if defined(__AVX512F__)
  return (Words)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return (Words)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}

/// out[4 i + w] = word w of group `first_group` + i, for kCounters groups.
inline void philox_words(const PhiloxKey& key, std::uint32_t sample, std::uint32_t first_group,
                         std::uint32_t* out) {
  Words c0, c1 = Words{} + sample, c2 = Words{} + key.step, c3 = Words{} + key.block_op;
  for (std::int64_t i = 0; i < kCounters; ++i) c0[i] = first_group + static_cast<std::uint32_t>(i);
  const Words factor0 = Words{} + 0xD2511F53u, factor1 = Words{} + 0xCD9E8D57u;
  std::uint32_t k0 = key.key[0], k1 = key.key[1];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Words p0 = product_of_low_halves(c0, factor0);
    const Words p1 = product_of_low_halves(c2, factor1);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const Words first_half = (c0 & 0xFFFFFFFFu) | (c1 << 32), second_half = (c2 & 0xFFFFFFFFu) | (c3 << 32);
  std::uint64_t halves[2][kCounters], groups[2 * kCounters];
  __builtin_memcpy(halves[0], &first_half, sizeof first_half);
  __builtin_memcpy(halves[1], &second_half, sizeof second_half);
  for (std::int64_t i = 0; i < kCounters; ++i) {
    groups[2 * i] = halves[0][i];
    groups[2 * i + 1] = halves[1][i];
  }
  __builtin_memcpy(out, groups, sizeof groups);
}

constexpr std::int64_t kKeepRun = 256;

/// keep[e] = 1 where the uniform draw of element first_elem + e is >= p, else 0; e in [0, n), n <= kKeepRun.
inline void philox_keep(const PhiloxKey& key, std::uint32_t sample, std::int64_t first_elem, std::int64_t n,
                        float p, float* keep) {
  constexpr std::int64_t kChunk = 4 * kCounters;
  std::uint32_t words[kKeepRun + 2 * kChunk];
  const std::int64_t skip = first_elem % 4;
  for (std::int64_t e = 0; e < n + skip; e += kChunk) {
    philox_words(key, sample, static_cast<std::uint32_t>((first_elem + e) / 4), words + e);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::int32_t>(words[skip + i] >> 8);
    keep[i] = static_cast<float>(bits) * (1.0f / 16777216.0f) >= p ? 1.0f : 0.0f;
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
