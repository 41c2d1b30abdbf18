// Small matrix products over tiles in cache: C (+)= A B. A is read one element at a time, in either order,
// and B and C a vector at a time. Used by attention, whose products are too small for a library call each.
#pragma once

#include "kernels/cpu/isa/vector.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kTileRows = 8;  // 8 x 2 accumulators of 32 registers
#else
constexpr int kTileRows = 4;  // 4 x 2 of 16
#endif
constexpr int kTileVectors = 2;

/// An operand: element (i, j) at data[i * pitch + j].
struct ConstTile {
  const float* data;
  std::int64_t pitch;
};

enum class Store { kOverwrite, kAccumulate };
enum class ReadA { kRows, kColumns };  // kColumns: A(i, j) is a.data[j * pitch + i]

template <ReadA kReadA, int kVectors>
inline void gemm_strip(std::int64_t depth, ConstTile a, ConstTile b, float* c, std::int64_t c_pitch,
                       Store mode) {
  Vector sum[kTileRows][kVectors] = {};
  // Three rows share a pointer: one for each row would not fit the registers.
  const float* a_rows[(kTileRows + 2) / 3];
  const std::int64_t row_pitch = kReadA == ReadA::kRows ? a.pitch : 0;
  for (int i = 0; i < (kTileRows + 2) / 3; ++i) a_rows[i] = a.data + 3 * i * row_pitch;
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector row[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) row[j] = load(b.data + k * b.pitch + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const float factor =
          kReadA == ReadA::kRows ? a_rows[i / 3][i % 3 * row_pitch + k] : a.data[k * a.pitch + i];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] += factor * row[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_pitch + j * kLanes;
      store(to, mode == Store::kAccumulate ? load(to) + sum[i][j] : sum[i][j]);
    }
  }
}

/// C [rows, cols] (+)= A [rows, depth] B [depth, cols]. `rows` is a multiple of kTileRows, `cols` of kLanes.
template <ReadA kReadA>
void tile_gemm(std::int64_t rows, std::int64_t cols, std::int64_t depth, ConstTile a, ConstTile b, float* c,
               std::int64_t c_pitch, Store mode) {
  constexpr std::int64_t kCols = kTileVectors * kLanes;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const ConstTile a_strip{a.data + i * (kReadA == ReadA::kRows ? a.pitch : 1), a.pitch};
    std::int64_t j = 0;
    for (; j + kCols <= cols; j += kCols) {
      gemm_strip<kReadA, kTileVectors>(depth, a_strip, {b.data + j, b.pitch}, c + i * c_pitch + j, c_pitch,
                                       mode);
    }
    if (j < cols) {
      gemm_strip<kReadA, 1>(depth, a_strip, {b.data + j, b.pitch}, c + i * c_pitch + j, c_pitch, mode);
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
