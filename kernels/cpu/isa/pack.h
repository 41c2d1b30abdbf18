// Copies of strided rows into dense tiles, zero beyond the edges, so that tile_gemm needs no edge cases and
// reads no memory of large pitch.
#pragma once

#include "kernels/cpu/isa/convert.h"
#include "kernels/cpu/isa/tile_gemm.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// Rows of elements, `pitch` elements apart.
struct ConstRows {
  const void* data;
  Element element;
  std::int64_t pitch;

  const void* row(std::int64_t i) const { return advance(data, element, i * pitch); }
};

/// to[j] = factor * from[j] for j < n.
inline void scale_row(float* to, const float* from, std::int64_t n, float factor) {
  for_each_vector(n, [&]<class T>(std::int64_t j) { store<T>(to + j, factor * load<T>(from + j)); });
}

/// dst[i * dst_pitch + j] = factor * src(i, j) for i < rows, j < cols; zero up to padded_rows, dst_pitch.
inline void pack_rows(float* dst, std::int64_t dst_pitch, std::int64_t padded_rows, const ConstRows& src,
                      std::int64_t rows, std::int64_t cols, float factor) {
  for (std::int64_t i = 0; i < rows; ++i) {
    float* to = dst + i * dst_pitch;
    const float* from = static_cast<const float*>(src.row(i));
    if (src.element != Element::kFp32) {
      read_row(from, src.element, to, cols);
      from = to;
    }
    scale_row(to, from, cols, factor);
    for (std::int64_t j = cols; j < dst_pitch; ++j) to[j] = 0.0f;
  }
  for (std::int64_t i = rows * dst_pitch; i < padded_rows * dst_pitch; ++i) dst[i] = 0.0f;
}

// zip({a0 a1 ..}, {b0 b1 ..}) = {a0 b0 a1 b1 ..}, of the lower or the upper halves.
inline Vector zip(Vector a, Vector b, std::int32_t first) {
  Ints indices;
  for (int i = 0; i < kLanes; ++i) indices[i] = first + i / 2 + (i % 2) * static_cast<std::int32_t>(kLanes);
  return __builtin_shuffle(a, b, indices);
}

/// dst[j * dst_pitch + i] = src[i * src_pitch + j] for a square of kLanes: zipping rows i and i + kLanes / 2,
/// log2(kLanes) times over, is the transposition.
inline void transpose_square(float* dst, std::int64_t dst_pitch, const float* src, std::int64_t src_pitch) {
  Vector rows[kLanes], zipped[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) rows[i] = load(src + i * src_pitch);
#pragma GCC unroll 4
  for (int width = 1; width < kLanes; width *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      zipped[2 * i] = zip(rows[i], rows[i + kLanes / 2], 0);
      zipped[2 * i + 1] = zip(rows[i], rows[i + kLanes / 2], kLanes / 2);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = zipped[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) store(dst + i * dst_pitch, rows[i]);
}

/// dst[j * dst_pitch + i] = src[i * src_pitch + j]; rows and cols are multiples of kLanes.
inline void transpose(float* dst, std::int64_t dst_pitch, const float* src, std::int64_t src_pitch,
                      std::int64_t rows, std::int64_t cols) {
  for (std::int64_t i = 0; i < rows; i += kLanes) {
    for (std::int64_t j = 0; j < cols; j += kLanes) {
      transpose_square(dst + j * dst_pitch + i, dst_pitch, src + i * src_pitch + j, src_pitch);
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
