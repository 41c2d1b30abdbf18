// Packed products of bf16 operands by AVX512_BF16: see [Note: pairs] in kernels/cpu/matmul/gemm_numerics.h.
#include <immintrin.h>

#include "kernels/cpu/isa/strip_product.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::x86_64_v4 {

// Packs words, which it only moves.
extern const GemmNumerics gemm_numerics;

}  // namespace trireme::cpu::x86_64_v4

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t kPair = 2;

using Packing = void (*)(const StripCopy& copy);

std::int64_t pairs_of(std::int64_t depth) {
  return (depth + kPair - 1) / kPair;
}

const std::uint16_t* element_at(const StripCopy& c, std::int64_t i) {
  return static_cast<const std::uint16_t*>(c.x) + i;
}

/// Words in a buffer as a part of the matrix of pairs: `depth` of them from `k` on, `cols` columns from `col`
/// on.
struct WordPart {
  const std::uint32_t* words;
  std::int64_t pitch, k, depth, col, cols;
};

template <std::int64_t kWidth>
void pack_words(Packing packing, const StripCopy& c, const WordPart& part) {
  const std::int64_t all = pairs_of(c.depth);
  packing({.x = part.words,
           .element = Element::kFp32,
           .pitch = part.pitch,
           .transposed = c.transposed,
           .depth = part.depth,
           .cols = part.cols,
           .y = c.y + part.col * all + part.k * kWidth,
           .strip_depth = all});
}

// words[j] = {low[j], high[j]}; a null `high` means zeros.
void join_rows(const std::uint16_t* low, const std::uint16_t* high, std::uint32_t* words, std::int64_t n) {
  if (high == nullptr) {
    for (std::int64_t j = 0; j < n; ++j) words[j] = low[j];
    return;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    words[j] = low[j] | static_cast<std::uint32_t>(high[j]) << 16;
  }
}

// Pairs of rows, some at a time, through a buffer in the L1 cache.
template <std::int64_t kWidth>
void pack_pairs_of_rows(Packing packing, const StripCopy& c) {
  constexpr std::int64_t kPairs = 8, kPiece = 8 * kColStrip, kPitch = kPiece + kLanes;
  static_assert(kPiece % kWidth == 0);
  std::uint32_t buffer[kPairs * kPitch];
  const std::int64_t all = pairs_of(c.depth);
  for (std::int64_t k = 0; k < all; k += kPairs) {
    const std::int64_t pairs = all - k < kPairs ? all - k : kPairs;
    for (std::int64_t j = 0; j < c.cols; j += kPiece) {
      const std::int64_t cols = c.cols - j < kPiece ? c.cols - j : kPiece;
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::int64_t row = kPair * (k + i), next = row + kPair * kPairs;
        for (std::int64_t r = next; r < next + kPair && r < c.depth; ++r) {
          fetch_row(reinterpret_cast<const float*>(element_at(c, r * c.pitch + j)), cols / 2);
        }
        join_rows(element_at(c, row * c.pitch + j),
                  row + 1 < c.depth ? element_at(c, (row + 1) * c.pitch + j) : nullptr, buffer + i * kPitch,
                  cols);
      }
      pack_words<kWidth>(packing, c, {buffer, kPitch, k, pairs, j, cols});
    }
  }
}

// Pairs are neighbours in memory: words, unless rows begin or end in the middle of one.
template <std::int64_t kWidth>
void pack_pairs_along_rows(Packing packing, const StripCopy& c) {
  const std::int64_t all = pairs_of(c.depth);
  const bool aligned = reinterpret_cast<std::uintptr_t>(c.x) % sizeof(std::uint32_t) == 0;
  if (aligned && c.pitch % kPair == 0 && c.depth % kPair == 0) {
    return pack_words<kWidth>(packing, c,
                              {static_cast<const std::uint32_t*>(c.x), c.pitch / kPair, 0, all, 0, c.cols});
  }
  constexpr std::int64_t kPairs = 128, kPitch = kPairs + kLanes;
  std::uint32_t buffer[kColStrip * kPitch];
  for (std::int64_t j = 0; j < c.cols; j += kColStrip) {
    const std::int64_t cols = c.cols - j < kColStrip ? c.cols - j : kColStrip;
    for (std::int64_t k = 0; k < all; k += kPairs) {
      const std::int64_t pairs = all - k < kPairs ? all - k : kPairs;
      const std::int64_t left = c.depth - kPair * k, elems = left < kPair * pairs ? left : kPair * pairs;
      for (std::int64_t i = 0; i < cols; ++i) {
        std::uint32_t* const words = buffer + i * kPitch;
        words[pairs - 1] = 0;
        __builtin_memcpy(words, element_at(c, (j + i) * c.pitch + kPair * k),
                         static_cast<std::size_t>(elems) * sizeof(std::uint16_t));
      }
      pack_words<kWidth>(packing, c, {buffer, kPitch, k, pairs, j, cols});
    }
  }
}

template <std::int64_t kWidth>
void pack_pairs(Packing packing, const StripCopy& c) {
  if (c.transposed) return pack_pairs_along_rows<kWidth>(packing, c);
  pack_pairs_of_rows<kWidth>(packing, c);
}

void pack_a(const StripCopy& c) {
  pack_pairs<kRowStrip>(x86_64_v4::gemm_numerics.pack_a, c);
}

void pack_b(const StripCopy& c) {
  pack_pairs<kColStrip>(x86_64_v4::gemm_numerics.pack_b, c);
}

/// sum + the products of two pairs.
struct MultiplyAddPairs {
  static Vector add(Vector sum, float pair, Vector row) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(_mm512_set1_ps(pair)),
                            reinterpret_cast<__m512bh>(row));
  }
};

void multiply(const StripProduct& p) {
  StripProduct words = p;
  words.depth = pairs_of(p.depth);
  multiply_words<MultiplyAddPairs>(words);
}

}  // namespace

const GemmNumerics gemm_numerics{.row_strip = kRowStrip,
                                 .col_strip = kColStrip,
                                 .per_word = kPair,
                                 .word_step = 1,
                                 .pack_a = pack_a,
                                 .pack_b = pack_b,
                                 .multiply = multiply};

}  // namespace trireme::cpu::TRIREME_ISA
