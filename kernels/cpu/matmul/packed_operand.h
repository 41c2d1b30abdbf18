// Operands that are packed before they are multiplied, and how such products are split: see [Note: panels] in
// kernels/cpu/matmul/matmul_panels.cc.
#pragma once

#include "kernels/cpu/convert.h"
#include "kernels/cpu/matmul/matmul_tiling.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu {

/// One operand in memory.
struct PackedOperand {
  ConstTensorView data;
  Element element;
  std::int64_t pitch;
  bool along_k;  // its rows run along k

  /// `count` of its rows or columns from `first` on, for `depth` of k from `k` on, packed into strips at `y`.
  StripCopy strips(std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t depth,
                   float* y) const {
    const std::int64_t at = along_k ? first * pitch + k : k * pitch + first;
    return {.x = data.as<char>() + at * size_bytes(data.dtype),
            .element = element,
            .pitch = pitch,
            .transposed = along_k,
            .depth = depth,
            .cols = count,
            .y = y};
  }
};

inline PackedOperand packed_operand(ConstTensorView data, MathMode math, bool along_k) {
  const bool tf32 = data.dtype == DType::kFloat32 && math == MathMode::kTf32;
  return {data, tf32 ? Element::kTf32 : element_of(data.dtype), data.shape[1], along_k};
}

/// Tiles of whole strips that threads can share evenly.
inline Tiling even_tiling(const GemmNumerics& gemm, const Extents& e, const TileLimits& limits,
                          int num_threads) {
  constexpr std::int64_t kMinExtent = 96, kMinProducts = 2'000'000, kManyTiles = 8;
  std::int64_t down = ceil_div(e.m, limits.rows), across = ceil_div(e.n, limits.cols);
  while (down * across % num_threads != 0 && down * across < kManyTiles * num_threads &&
         e.m * e.n * e.k / (down * across) >= kMinProducts) {
    const std::int64_t rows = e.m / down, cols = e.n / across;
    if (std::max(rows, cols) < 2 * kMinExtent) break;
    ++(rows >= cols ? down : across);
  }
  const std::int64_t rows = ceil_div(ceil_div(e.m, down), gemm.row_strip) * gemm.row_strip;
  const std::int64_t cols = ceil_div(ceil_div(e.n, across), gemm.col_strip) * gemm.col_strip;
  return {rows, cols, ceil_div(e.m, rows), ceil_div(e.n, cols)};
}

/// Words of a strip's column.
inline std::int64_t words_of(const GemmNumerics& gemm, std::int64_t depth) {
  return ceil_div(ceil_div(depth, gemm.per_word), gemm.word_step) * gemm.word_step;
}

/// The split of K, by its length and the words of the strips alone.
struct Depths {
  std::int64_t depth, count;
};

inline Depths depths_of(const GemmNumerics& gemm, std::int64_t k) {
  constexpr std::int64_t kMaxWords = 512;  // measured: matmul_panels.cc
  const std::int64_t count = std::max<std::int64_t>(1, ceil_div(k, kMaxWords * gemm.per_word));
  const std::int64_t step = std::max<std::int64_t>(16, gemm.word_step * gemm.per_word);
  return {ceil_div(ceil_div(k, count), step) * step, count};
}

}  // namespace trireme::cpu
