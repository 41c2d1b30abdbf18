// Packed products of bf16 operands by AMX: see [Note: tiles of pairs] in kernels/cpu/matmul/gemm_numerics.h.
#include <immintrin.h>

#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t kPair = 2;
constexpr std::int64_t kSide = 16;               // rows of a tile register, and words of a row
constexpr std::int64_t kStrip = 2 * kSide;       // two tiles of a times two of b
constexpr std::int64_t kBlock = kStrip * kSide;  // words of a strip for the depth of one tile
constexpr std::int64_t kRowBytes = kSide * sizeof(float);

enum class Side { kA, kB };

std::int64_t words_of(std::int64_t depth) {
  return round_up((depth + kPair - 1) / kPair, kSide);
}

__mmask32 first(std::int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << (count < 0 ? 0 : count)) - 1;
}

const std::uint16_t* element_at(const StripCopy& c, std::int64_t row, std::int64_t col) {
  return static_cast<const std::uint16_t*>(c.x) + row * c.pitch + col;
}

// y[j][word]: 16 lines of 16 words that are neighbours in memory, from line `line` and word `word` on.
void read_lines(const StripCopy& c, std::int64_t line, std::int64_t word, float* y, std::int64_t pitch) {
  const __mmask32 mask = first(c.depth - kPair * word);
  for (std::int64_t j = 0; j < kSide; ++j) {
    const __mmask32 used = line + j < c.cols ? mask : 0;
    const __m512i words =
        _mm512_maskz_loadu_epi16(used, element_at(c, used != 0 ? line + j : 0, kPair * word));
    _mm512_storeu_si512(y + j * pitch, words);
  }
}

// y[word][j]: 16 pairs of rows, joined into words.
void read_pairs_of_rows(const StripCopy& c, std::int64_t col, std::int64_t word, float* y,
                        std::int64_t pitch) {
  const auto mask = static_cast<__mmask16>(first(c.cols - col));
  const auto row_of = [&](std::int64_t row) {
    if (row >= c.depth) return _mm512_setzero_si512();
    return _mm512_maskz_cvtepu16_epi32(kAllLanes, _mm256_maskz_loadu_epi16(mask, element_at(c, row, col)));
  };
  for (std::int64_t i = 0; i < kSide; ++i) {
    const std::int64_t row = kPair * (word + i);
    const __m512i high = _mm512_maskz_slli_epi32(kAllLanes, row_of(row + 1), 16);
    _mm512_storeu_si512(y + i * pitch, _mm512_or_si512(row_of(row), high));
  }
}

// The words of 16 lines of a strip, from line `line` and word `word` on: y[j][word] of a, y[word][j] of b.
template <Side kSideOf>
void pack_square(const StripCopy& c, std::int64_t line, std::int64_t word) {
  constexpr std::int64_t kPitch = kSideOf == Side::kA ? kSide : kStrip;
  const std::int64_t half = line % kStrip / kSide;
  float* const y = c.y + (line - line % kStrip) * words_of(c.depth) + word * kStrip +
                   half * (kSideOf == Side::kA ? kBlock / 2 : kSide);
  const auto read = c.transposed ? read_lines : read_pairs_of_rows;
  if (c.transposed == (kSideOf == Side::kA)) return read(c, line, word, y, kPitch);
  alignas(64) float square[kSide * kSide];
  read(c, line, word, square, kSide);
  transpose_square(y, kPitch, square, kSide);
}

// Reads in the order of memory, as far as blocks of 16 words allow.
template <Side kSideOf>
void pack(const StripCopy& c) {
  const std::int64_t lines = round_up(c.cols, kStrip), words = words_of(c.depth);
  if (c.transposed) {
    for (std::int64_t line = 0; line < lines; line += kSide) {
      for (std::int64_t word = 0; word < words; word += kSide) pack_square<kSideOf>(c, line, word);
    }
    return;
  }
  for (std::int64_t word = 0; word < words; word += kSide) {
    const std::int64_t next = kPair * (word + kSide);
    for (std::int64_t line = 0; line < lines; line += kSide) {
      for (std::int64_t row = next; line % kStrip == 0 && row < next + kPair * kSide && row < c.depth;
           ++row) {
        __builtin_prefetch(element_at(c, row, line));
      }
      pack_square<kSideOf>(c, line, word);
    }
  }
}

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

constexpr TileShapes eight_squares() {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.row_bytes[i] = kRowBytes;
    shapes.rows[i] = kSide;
  }
  return shapes;
}

constexpr TileShapes kTileShapes = eight_squares();

/// Tile registers while products are computed. Elsewhere they are in their initial state, which context
/// switches and signal handlers need not save.
class TileRegisters {
 public:
  TileRegisters() { _tile_loadconfig(&kTileShapes); }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

// c [16 kRows, 16 kCols] = a b, rows `pitch` floats apart.
template <int kRows, int kCols>
[[gnu::noinline]] void multiply_tiles(const float* a, const float* b, std::int64_t words, float* c,
                                      std::int64_t pitch) {
  constexpr std::int64_t kBBytes = kStrip * sizeof(float);
  const std::int64_t c_bytes = pitch * static_cast<std::int64_t>(sizeof(float));
  asm volatile("" ::: "memory");  // the intrinsics do not declare that they read memory
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t word = 0; word < words; word += kSide, a += kBlock, b += kBlock) {
    _tile_loadd(4, a, kRowBytes);
    _tile_loadd(6, b, kBBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kCols == 2) {
      _tile_loadd(7, b + kSide, kBBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRows == 2) {
      _tile_loadd(5, a + kBlock / 2, kRowBytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kCols == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (kCols == 2) _tile_stored(1, c + kSide, c_bytes);
  if constexpr (kRows == 2) _tile_stored(2, c + kSide * pitch, c_bytes);
  if constexpr (kRows == 2 && kCols == 2) _tile_stored(3, c + kSide * pitch + kSide, c_bytes);
}

void multiply_tiles(const float* a, const float* b, std::int64_t words, std::int64_t rows, std::int64_t cols,
                    float* c, std::int64_t pitch) {
  if (rows > kSide && cols > kSide) return multiply_tiles<2, 2>(a, b, words, c, pitch);
  if (rows > kSide) return multiply_tiles<2, 1>(a, b, words, c, pitch);
  if (cols > kSide) return multiply_tiles<1, 2>(a, b, words, c, pitch);
  multiply_tiles<1, 1>(a, b, words, c, pitch);
}

// A strip of b stays in the L2 cache while all of a is multiplied with it.
void multiply(const StripProduct& p) {
  const std::int64_t words = words_of(p.depth);
  const TileRegisters registers;
  for (std::int64_t j = 0; j < p.cols; j += kStrip) {
    const std::int64_t cols = p.cols - j < kStrip ? p.cols - j : kStrip;
    for (std::int64_t i = 0; i < p.rows; i += kStrip) {
      const std::int64_t rows = p.rows - i < kStrip ? p.rows - i : kStrip;
      float* const c = p.c + i * p.c_pitch + j;
      const float *a = p.a + i * words, *b = p.b + j * words;
      if (!p.accumulate && rows == kStrip && cols == kStrip) {
        multiply_tiles<2, 2>(a, b, words, c, p.c_pitch);
        continue;
      }
      alignas(64) float sums[kStrip * kStrip];
      multiply_tiles(a, b, words, rows, cols, sums, kStrip);
      for (std::int64_t row = 0; row < rows; ++row) {
        float* const to = c + row * p.c_pitch;
        const float* const sum = sums + row * kStrip;
        for (std::int64_t col = 0; col < cols; ++col) to[col] = p.accumulate ? to[col] + sum[col] : sum[col];
      }
    }
  }
}

}  // namespace

const GemmNumerics gemm_numerics{.row_strip = kStrip,
                                 .col_strip = kStrip,
                                 .per_word = kPair,
                                 .word_step = kSide,
                                 .pack_a = pack<Side::kA>,
                                 .pack_b = pack<Side::kB>,
                                 .multiply = multiply};

}  // namespace trireme::cpu::TRIREME_ISA
