// Copies strided rows into dense tiles that are zero beyond the edges. So tile_gemm has no edge cases and
// reads no memory with a large pitch.
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

/// Rows of fp32, `pitch` apart.
struct FloatRows {
  float* data;
  std::int64_t pitch;
};

// Number of rows to prefetch for wide rows in tensors. The hardware predicts neither their addresses nor, at
// large distances, their pages.
constexpr std::int64_t kRowsAhead = 8;
constexpr std::int64_t kLineFloats = 16;

inline void fetch_row(const float* row, std::int64_t cols) {
  for (std::int64_t j = 0; j < cols; j += kLineFloats) __builtin_prefetch(row + j);
}

enum class InTensor { kSource, kDestination };  // the operand that is not a tile in cache

struct One {
  constexpr float operator()(std::int64_t) const { return 1.0f; }
};

// copy_rows of kVectors * kLanes columns.
template <InTensor kTensor, int kVectors, class Factor>
inline void copy_dense_rows(FloatRows to, FloatRows from, std::int64_t rows, const Factor& factor) {
  constexpr bool kWide = kVectors * kLanes > 32;  // two cache lines or less need no prefetch
  const FloatRows& tensor = kTensor == InTensor::kSource ? from : to;
  for (std::int64_t i = 0; i < rows; ++i, to.data += to.pitch, from.data += from.pitch) {
    if (kWide && i + kRowsAhead < rows) {
      fetch_row(tensor.data + kRowsAhead * tensor.pitch, kVectors * kLanes);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      store(to.data + v * kLanes, factor(i) * load(from.data + v * kLanes));
    }
  }
}

/// to(i, j) = factor(i) * from(i, j) for i < rows, j < cols. Fast for usual head widths. Not inlined, like
/// pack_rows, because callers have few free registers.
template <InTensor kTensor, class Factor = One>
[[gnu::noinline]] void copy_rows(FloatRows to, FloatRows from, std::int64_t rows, std::int64_t cols,
                                 const Factor& factor = {}) {
  if (cols == 2 * kLanes) return copy_dense_rows<kTensor, 2>(to, from, rows, factor);
  if (cols == 4 * kLanes) return copy_dense_rows<kTensor, 4>(to, from, rows, factor);
  if (cols == 8 * kLanes) return copy_dense_rows<kTensor, 8>(to, from, rows, factor);
  const FloatRows& tensor = kTensor == InTensor::kSource ? from : to;
  for (std::int64_t i = 0; i < rows; ++i, to.data += to.pitch, from.data += from.pitch) {
    if (i + kRowsAhead < rows) fetch_row(tensor.data + kRowsAhead * tensor.pitch, cols);
    for_each_vector(
        cols, [&]<class T>(std::int64_t j) { store<T>(to.data + j, factor(i) * load<T>(from.data + j)); });
  }
}

/// dst[i * dst_pitch + j] = src(i, j) for i < rows, j < cols. Zeros up to padded_rows and dst_pitch.
[[gnu::noinline]] inline void pack_rows(float* dst, std::int64_t dst_pitch, std::int64_t padded_rows,
                                        const ConstRows& src, std::int64_t rows, std::int64_t cols) {
  if (src.element == Element::kFp32) {
    auto* from = static_cast<float*>(const_cast<void*>(src.data));
    copy_rows<InTensor::kSource>({dst, dst_pitch}, {from, src.pitch}, rows, cols);
  } else {
    for (std::int64_t i = 0; i < rows; ++i) read_row(src.row(i), src.element, dst + i * dst_pitch, cols);
  }
  if (cols < dst_pitch) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = cols; j < dst_pitch; ++j) dst[i * dst_pitch + j] = 0.0f;
    }
  }
  for (std::int64_t i = rows * dst_pitch; i < padded_rows * dst_pitch; ++i) dst[i] = 0.0f;
}

// Within every quad of lanes: {a0 b0 a1 b1}, or with kUpper {a2 b2 a3 b3}.
template <int kUpper>
inline Vector interleave(Vector a, Vector b) {
  return permuted(a, b, [](int l) { return l - l % 4 + 2 * kUpper + l % 4 / 2 + l % 2 * int{kLanes}; });
}

// Within every quad of lanes: {a0 a1 b0 b1}, or with kUpper {a2 a3 b2 b3}.
template <int kUpper>
inline Vector interleave_pairs(Vector a, Vector b) {
  return permuted(a, b, [](int l) { return l - l % 4 + 2 * kUpper + l % 2 + l % 4 / 2 * int{kLanes}; });
}

// Every second quad of a, then of b, from quad kFirst on.
template <int kFirst>
inline Vector every_second_quad(Vector a, Vector b) {
  constexpr int kHalf = kLanes / 2;
  return permuted(a, b,
                  [](int l) { return (kFirst + l % kHalf / 4 * 2) * 4 + l % 4 + l / kHalf * int{kLanes}; });
}

/// dst[j * dst_pitch + i] = src[i * src_pitch + j] for a square of kLanes. Transposes 4 x 4 squares within
/// quads of lanes first, then the quads. Shuffles within quads are the fast ones.
inline void transpose_square(float* dst, std::int64_t dst_pitch, const float* src, std::int64_t src_pitch) {
  constexpr int kQuads = kLanes / 4;
  Vector quads[4][kQuads];  // [j][q]: quad p is column 4 p + j of the rows from 4 q on
#pragma GCC unroll 4
  for (int q = 0; q < kQuads; ++q) {
    Vector rows[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) rows[i] = load(src + (4 * q + i) * src_pitch);
    const Vector low01 = interleave<0>(rows[0], rows[1]), low23 = interleave<0>(rows[2], rows[3]);
    const Vector high01 = interleave<1>(rows[0], rows[1]), high23 = interleave<1>(rows[2], rows[3]);
    quads[0][q] = interleave_pairs<0>(low01, low23);
    quads[1][q] = interleave_pairs<1>(low01, low23);
    quads[2][q] = interleave_pairs<0>(high01, high23);
    quads[3][q] = interleave_pairs<1>(high01, high23);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Vector* q = quads[j];
    float* to = dst + j * dst_pitch;
    if constexpr (kQuads == 1) {
      store(to, q[0]);
    } else if constexpr (kQuads == 2) {
      store(to, every_second_quad<0>(q[0], q[1]));
      store(to + 4 * dst_pitch, every_second_quad<1>(q[0], q[1]));
    } else {
      const Vector even01 = every_second_quad<0>(q[0], q[1]), even23 = every_second_quad<0>(q[2], q[3]);
      const Vector odd01 = every_second_quad<1>(q[0], q[1]), odd23 = every_second_quad<1>(q[2], q[3]);
      store(to, every_second_quad<0>(even01, even23));
      store(to + 4 * dst_pitch, every_second_quad<0>(odd01, odd23));
      store(to + 8 * dst_pitch, every_second_quad<1>(even01, even23));
      store(to + 12 * dst_pitch, every_second_quad<1>(odd01, odd23));
    }
  }
}

/// dst[j * dst_pitch + i] = src[i * src_pitch + j]; rows and cols are multiples of kLanes.
[[gnu::noinline]] inline void transpose(float* dst, std::int64_t dst_pitch, const float* src,
                                        std::int64_t src_pitch, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t i = 0; i < rows; i += kLanes) {
    for (std::int64_t j = 0; j < cols; j += kLanes) {
      transpose_square(dst + j * dst_pitch + i, dst_pitch, src + i * src_pitch + j, src_pitch);
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
