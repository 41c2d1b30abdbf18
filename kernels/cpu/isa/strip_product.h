// Products of packed matrices in register tiles, for any content of the 32-bit words of a strip: see
// kernels/cpu/matmul/gemm_numerics.h.
#pragma once

#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/isa/tile_gemm.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr int kAhead = 4;
constexpr std::int64_t kRowStrip = kTileRows, kColStrip = kTileVectors * kLanes;

/// The operands of one register tile.
struct StripTile {
  const float *a, *b;
  float* c;
  std::int64_t rows, cols;
  const float* following;  // read next
};

template <class Fma, int kVectors, int kRows>
void multiply_tile(const StripProduct& p, const StripTile& t, float* c, std::int64_t c_pitch, Store store) {
  const ConstTile a{t.a, kRowStrip}, b{t.b, kColStrip};
  if (p.prefetch_b) {
    gemm_tile<ReadA::kColumns, kVectors, kAhead, true, kRows, Fma>(p.depth, a, b, c, c_pitch, store,
                                                                   t.following);
  } else {
    gemm_tile<ReadA::kColumns, kVectors, kAhead, false, kRows, Fma>(p.depth, a, b, c, c_pitch, store);
  }
}

// Computes one register tile. Prefetches the part of c that it adds to.
template <class Fma, int kVectors, int kRows>
void multiply_rows(const StripProduct& p, const StripTile& t) {
  if (t.rows == kRows && t.cols == kVectors * kLanes) {
    for (std::int64_t i = 0; i < kRows; ++i) fetch_row(t.c + i * p.c_pitch, kVectors * kLanes);
    multiply_tile<Fma, kVectors, kRows>(p, t, t.c, p.c_pitch,
                                        p.accumulate ? Store::kAccumulate : Store::kOverwrite);
    return;
  }
  float sums[kRows * kColStrip];
  multiply_tile<Fma, kVectors, kRows>(p, t, sums, kColStrip, Store::kOverwrite);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.cols; ++j) {
      const float sum = sums[i * kColStrip + j];
      float& to = t.c[i * p.c_pitch + j];
      to = p.accumulate ? to + sum : sum;
    }
  }
}

// The last strip of a may have few rows, for example of a recurrence, which has one row per sample.
template <class Fma, int kVectors>
void multiply_strips(const StripProduct& p, const StripTile& t) {
  if (t.rows <= kRowStrip / 2) return multiply_rows<Fma, kVectors, kRowStrip / 2>(p, t);
  multiply_rows<Fma, kVectors, kRowStrip>(p, t);
}

/// c (+)= a b, where StripProduct::depth counts the words of a strip. A strip of b stays in cache while all
/// of a is multiplied with it. Each strip of a prefetches a part of the next strip of b.
template <class Fma>
void multiply_words(const StripProduct& p) {
  constexpr std::int64_t kParts = (kColStrip + kCacheLine - 1) / kCacheLine;
  for (std::int64_t j = 0; j < p.cols; j += kColStrip) {
    const std::int64_t cols = p.cols - j < kColStrip ? p.cols - j : kColStrip;
    for (std::int64_t i = 0; i < p.rows; i += kRowStrip) {
      const std::int64_t rows = p.rows - i < kRowStrip ? p.rows - i : kRowStrip;
      const float* b = p.b + j * p.depth;
      const std::int64_t part = i / kRowStrip % kParts;
      const StripTile tile{.a = p.a + i * p.depth,
                           .b = b,
                           .c = p.c + i * p.c_pitch + j,
                           .rows = rows,
                           .cols = cols,
                           .following = b + (kColStrip + part * kCacheLine) * p.depth};
      if (cols <= kLanes) {
        multiply_strips<Fma, 1>(p, tile);
      } else if (cols <= 2 * kLanes || kTileVectors == 2) {
        multiply_strips<Fma, 2>(p, tile);
      } else {
        multiply_strips<Fma, kTileVectors>(p, tile);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
