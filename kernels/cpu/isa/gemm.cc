// Products of packed matrices: see kernels/cpu/matmul/gemm_numerics.h.
#include "kernels/cpu/isa/convert.h"
#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/isa/strip_product.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <std::int64_t kWidth>
void copy_zeroed(const float* from, std::int64_t width, float* to) {
  for (std::int64_t j = 0; j < width; ++j) to[j] = from[j];
  for (std::int64_t j = width; j < kWidth; ++j) to[j] = 0.0f;
}

/// Rows of fp32, `pitch` floats apart.
struct RowsInMemory {
  const float* x;
  std::int64_t pitch, rows, cols;
};

// Packs several rows at a time, so that strips are written in whole cache lines and memory is read in order.
template <std::int64_t kWidth>
void pack_some_rows(const RowsInMemory& from, std::int64_t depth, float* y) {
  std::int64_t j = 0;
  for (; j + kWidth <= from.cols; j += kWidth) {
    for (std::int64_t k = 0; k < from.rows; ++k) {
      __builtin_memcpy(y + j * depth + k * kWidth, from.x + k * from.pitch + j, kWidth * sizeof(float));
    }
  }
  if (j == from.cols) return;
  for (std::int64_t k = 0; k < from.rows; ++k) {
    copy_zeroed<kWidth>(from.x + k * from.pitch + j, from.cols - j, y + j * depth + k * kWidth);
  }
}

std::int64_t strip_depth(const StripCopy& c) {
  return c.strip_depth > 0 ? c.strip_depth : c.depth;
}

// Converts elements other than fp32 through a buffer in the L1 cache.
template <std::int64_t kWidth>
void pack_rows_of(const StripCopy& c) {
  constexpr std::int64_t kRows = 8, kPiece = 8 * kColStrip, kPitch = kPiece + kLanes;
  static_assert(kPiece % kWidth == 0);
  float buffer[kRows * kPitch];
  for (std::int64_t k = 0; k < c.depth; k += kRows) {
    const std::int64_t rows = c.depth - k < kRows ? c.depth - k : kRows;
    for (std::int64_t i = k + kRows; i < k + 2 * kRows && i < c.depth; ++i) {
      fetch_row(static_cast<const float*>(advance(c.x, c.element, i * c.pitch)),
                is_16_bit(c.element) ? c.cols / 2 : c.cols);
    }
    if (c.element == Element::kFp32) {
      const float* x = static_cast<const float*>(c.x) + k * c.pitch;
      pack_some_rows<kWidth>({x, c.pitch, rows, c.cols}, strip_depth(c), c.y + k * kWidth);
      continue;
    }
    for (std::int64_t j = 0; j < c.cols; j += kPiece) {
      const std::int64_t cols = c.cols - j < kPiece ? c.cols - j : kPiece;
      for (std::int64_t i = 0; i < rows; ++i) {
        read_row(advance(c.x, c.element, (k + i) * c.pitch + j), c.element, buffer + i * kPitch, cols);
      }
      pack_some_rows<kWidth>({buffer, kPitch, rows, cols}, strip_depth(c),
                             c.y + j * strip_depth(c) + k * kWidth);
    }
  }
}

// Strips narrower than a vector are transposed in groups of one vector, in runs of k.
template <std::int64_t kWidth>
void pack_columns_of(const StripCopy& c) {
  constexpr std::int64_t kRun = 128, kGroup = kWidth % kLanes == 0 ? kWidth : kLanes;
  static_assert(kGroup % kWidth == 0);
  float group[kRun * kGroup];
  for (std::int64_t j = 0; j < c.cols; j += kGroup) {
    const std::int64_t cols = c.cols - j < kGroup ? c.cols - j : kGroup;
    for (std::int64_t k = 0; k < c.depth; k += kRun) {
      const std::int64_t run = c.depth - k < kRun ? c.depth - k : kRun;
      const bool direct = kGroup == kWidth && cols == kWidth;
      float* const y = c.y + j * strip_depth(c) + k * kWidth;
      cast_numerics.read_transposed({.x = advance(c.x, c.element, j * c.pitch + k),
                                     .element = c.element,
                                     .x_pitch = c.pitch,
                                     .rows = cols,
                                     .cols = run,
                                     .y = direct ? y : group,
                                     .y_pitch = kGroup});
      if (!direct) pack_some_rows<kWidth>({group, kGroup, run, cols}, strip_depth(c), y);
    }
  }
}

template <std::int64_t kWidth>
void pack(const StripCopy& c) {
  if (c.transposed) return pack_columns_of<kWidth>(c);
  pack_rows_of<kWidth>(c);
}

void multiply(const StripProduct& p) {
  multiply_words<MultiplyAdd>(p);
}

}  // namespace

const GemmNumerics gemm_numerics{.row_strip = kRowStrip,
                                 .col_strip = kColStrip,
                                 .per_word = 1,
                                 .word_step = 1,
                                 .pack_a = pack<kRowStrip>,
                                 .pack_b = pack<kColStrip>,
                                 .multiply = multiply};

}  // namespace trireme::cpu::TRIREME_ISA
