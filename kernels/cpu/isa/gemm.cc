// Products of packed matrices: see kernels/cpu/matmul/gemm_numerics.h.
#include "kernels/cpu/isa/convert.h"
#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/isa/tile_gemm.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr int kAhead = 4;
constexpr std::int64_t kRowStrip = kTileRows, kColStrip = kTileVectors * kLanes;

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

/// The operands of one register tile.
struct StripTile {
  const float *a, *b;
  float* c;
  std::int64_t rows, cols;
  const float* following;  // read next
};

template <int kVectors, int kRows>
void multiply_tile(const StripProduct& p, const StripTile& t, float* c, std::int64_t c_pitch, Store store) {
  const ConstTile a{t.a, kRowStrip}, b{t.b, kColStrip};
  if (p.prefetch_b) {
    gemm_tile<ReadA::kColumns, kVectors, kAhead, true, kRows>(p.depth, a, b, c, c_pitch, store, t.following);
  } else {
    gemm_tile<ReadA::kColumns, kVectors, kAhead, false, kRows>(p.depth, a, b, c, c_pitch, store);
  }
}

// Computes one register tile. Prefetches the part of c that it adds to.
template <int kVectors, int kRows>
void multiply_rows(const StripProduct& p, const StripTile& t) {
  if (t.rows == kRows && t.cols == kVectors * kLanes) {
    for (std::int64_t i = 0; i < kRows; ++i) fetch_row(t.c + i * p.c_pitch, kVectors * kLanes);
    multiply_tile<kVectors, kRows>(p, t, t.c, p.c_pitch,
                                   p.accumulate ? Store::kAccumulate : Store::kOverwrite);
    return;
  }
  float sums[kRows * kColStrip];
  multiply_tile<kVectors, kRows>(p, t, sums, kColStrip, Store::kOverwrite);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.cols; ++j) {
      const float sum = sums[i * kColStrip + j];
      float& to = t.c[i * p.c_pitch + j];
      to = p.accumulate ? to + sum : sum;
    }
  }
}

// The last strip of a may have few rows, for example of a recurrence, which has one row per sample.
template <int kVectors>
void multiply_strips(const StripProduct& p, const StripTile& t) {
  if (t.rows <= kRowStrip / 2) return multiply_rows<kVectors, kRowStrip / 2>(p, t);
  multiply_rows<kVectors, kRowStrip>(p, t);
}

// A strip of b stays in cache while all of a is multiplied with it. Each strip of a prefetches a part of the
// next strip of b.
void multiply(const StripProduct& p) {
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
        multiply_strips<1>(p, tile);
      } else if (cols <= 2 * kLanes || kTileVectors == 2) {
        multiply_strips<2>(p, tile);
      } else {
        multiply_strips<kTileVectors>(p, tile);
      }
    }
  }
}

}  // namespace

const GemmNumerics gemm_numerics{.row_strip = kRowStrip,
                                 .col_strip = kColStrip,
                                 .pack_a = pack<kRowStrip>,
                                 .pack_b = pack<kColStrip>,
                                 .multiply = multiply};

}  // namespace trireme::cpu::TRIREME_ISA
