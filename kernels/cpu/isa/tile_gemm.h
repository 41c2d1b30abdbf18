// Small matrix products over tiles in cache: C (+)= A B. Reads A one element at a time, in either order, and
// B and C one vector at a time. Used by attention, whose products are too small for library calls, and by
// packed products (isa/gemm.cc).
#pragma once

#include "kernels/cpu/isa/vector.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kTileRows = 8;  // 8 x 3 sums of 32 registers
constexpr int kTileVectors = 3;
#elif defined(__FMA__)
constexpr int kTileRows = 4;  // 4 x 3 of 16; one register is left for a factor
constexpr int kTileVectors = 3;
#else
constexpr int kTileRows = 4;  // 4 x 2 of 16: without FMA, a product needs a register
constexpr int kTileVectors = 2;
#endif

constexpr std::int64_t kCacheLine = 16;  // floats

/// An operand: element (i, j) at data[i * pitch + j].
struct ConstTile {
  const float* data;
  std::int64_t pitch;
};

enum class Store { kOverwrite, kAccumulate };
enum class ReadA { kRows, kColumns };  // kColumns: A(i, j) is a.data[j * pitch + i]

/// sum + factor * row in fp32.
struct MultiplyAdd {
  static Vector add(Vector sum, float factor, Vector row) { return sum + factor * row; }
};

// Not inlined: callers have many products and few registers left for their addresses. Prefetches kAhead rows
// of a B in the L2 cache. With kFollowing, prefetches `depth` cache lines at `following` into the L2 cache.
template <ReadA kReadA, int kVectors, int kAhead = 0, bool kFollowing = false, int kRows = kTileRows,
          class Fma = MultiplyAdd>
[[gnu::noinline]] void gemm_tile(std::int64_t depth, ConstTile a, ConstTile b, float* c, std::int64_t c_pitch,
                                 Store mode, const float* following = nullptr) {
  Vector sum[kRows][kVectors] = {};
  // Three rows share a pointer, because one pointer per row would not fit the registers.
  const float* a_rows[(kRows + 2) / 3];
  const std::int64_t row_pitch = kReadA == ReadA::kRows ? a.pitch : 0;
  for (int i = 0; i < (kRows + 2) / 3; ++i) a_rows[i] = a.data + 3 * i * row_pitch;
#pragma GCC unroll 4
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector row[kVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) row[j] = load(b.data + k * b.pitch + j * kLanes);
    if constexpr (kAhead > 0) {
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) __builtin_prefetch(b.data + (k + kAhead) * b.pitch + j * kLanes);
    }
    if constexpr (kFollowing) __builtin_prefetch(following + k * kCacheLine, /*rw=*/0, /*locality=*/2);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const float factor =
          kReadA == ReadA::kRows ? a_rows[i / 3][i % 3 * row_pitch + k] : a.data[k * a.pitch + i];
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) sum[i][j] = Fma::add(sum[i][j], factor, row[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_pitch + j * kLanes;
      store(to, mode == Store::kAccumulate ? load(to) + sum[i][j] : sum[i][j]);
    }
  }
}

/// C [kTileRows, cols] (+)= A [kTileRows, depth] B [depth, cols]. `cols` is a multiple of kLanes.
template <ReadA kReadA>
inline void gemm_strip(std::int64_t cols, std::int64_t depth, ConstTile a, ConstTile b, float* c,
                       std::int64_t c_pitch, Store mode) {
  std::int64_t j = 0;
  const auto tile = [&]<int kVectors>() {
    gemm_tile<kReadA, kVectors>(depth, a, {b.data + j, b.pitch}, c + j, c_pitch, mode);
    j += kVectors * kLanes;
  };
  // Four vectors become two tiles of two, because a tile of three would leave a narrow one.
  if constexpr (kTileVectors == 3) {
    while (cols - j > 4 * kLanes || cols - j == 3 * kLanes) tile.template operator()<3>();
  }
  while (cols - j >= 2 * kLanes) tile.template operator()<2>();
  if (j < cols) tile.template operator()<1>();
}

/// C [rows, cols] (+)= A [rows, depth] B [depth, cols]. `rows` is a multiple of kTileRows, `cols` of kLanes.
template <ReadA kReadA>
inline void tile_gemm(std::int64_t rows, std::int64_t cols, std::int64_t depth, ConstTile a, ConstTile b,
                      float* c, std::int64_t c_pitch, Store mode) {
  const std::int64_t to_next_row = kReadA == ReadA::kRows ? a.pitch : 1;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    gemm_strip<kReadA>(cols, depth, {a.data + i * to_next_row, a.pitch}, b, c + i * c_pitch, c_pitch, mode);
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
