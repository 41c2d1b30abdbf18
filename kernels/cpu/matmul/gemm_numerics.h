// The tables of numerics.h for products of packed matrices. Serial functions over raw pointers, as
// [Note: instruction sets] requires.
#pragma once

#include <cstdint>

namespace trireme::cpu {

enum class Element : std::uint8_t;

/// A matrix [depth, cols] in strips of `width` columns. Element (k, j) is at y[j / width * depth * width + k
/// * width + j % width]; with pairs, words take the place of elements. A last strip that is wider than the
/// matrix is filled with zeros. The copy takes ceil(cols / width) * width * depth floats. For some rows of a
/// deeper matrix, strip_depth is the depth of that matrix, and takes the place of `depth` above.
struct StripCopy {
  const void* x;
  Element element;
  std::int64_t pitch;  // elements from one row of x to the next
  bool transposed;     // x is [cols, depth]
  std::int64_t depth, cols;
  float* y;
  std::int64_t strip_depth = 0;  // 0: depth
};

/// c = a b, or c += a b. Each element's sum over depth is one chain of multiply-adds, in order; where a word
/// holds a pair, one chain of sums of two products.
struct StripProduct {
  const float* a;  // strips of row_strip: a's transpose, [depth, rows]
  const float* b;  // strips of col_strip: [depth, cols]
  float* c;        // [rows, cols], rows c_pitch apart
  std::int64_t rows, cols, depth, c_pitch;
  bool accumulate;
  bool prefetch_b = false;  // the next product reads the memory after b, which is not in cache
};

/// [Note: pairs] With AVX512_BF16, a 32-bit word of a strip holds two neighbours in k as bf16, the first in
/// the low half (0 behind an odd depth), and one instruction adds the products of two pairs to an fp32 sum.
/// Bits of an element depend on its row, its column and the split of k alone, like those of fp32 words. The
/// instruction rounds sums to nearest even and reads and writes denormals as 0. So the bits differ from those
/// of fp32 words, and the instruction set has a name of its own (x86_64_v4_bf16).
///
/// [Note: tiles of pairs] AMX multiplies tiles of 16 rows of 16 words. It sums the first elements of 16 pairs
/// and the second elements separately, from 0, then both sums, and adds the total to the fp32 sum. So its
/// bits differ again (x86_64_v4_amx). Depths are filled with zeros to whole tiles, which makes an element's
/// bits depend on its row, its column and the split of k alone. A strip of b has the order of StripCopy. In a
/// strip of a, the 16 words of a row are neighbours: word k of column j of the strip is at k / 16 * 16 *
/// width + j * 16 + k % 16. Tile registers are released after each call.
struct GemmNumerics {
  std::int64_t row_strip, col_strip;  // the size of a register tile
  std::int64_t per_word;              // elements of k in a word: 1, or 2 of pairs
  std::int64_t word_step;             // the words of a strip's column are a multiple of it
  void (*pack_a)(const StripCopy& copy);
  void (*pack_b)(const StripCopy& copy);
  void (*multiply)(const StripProduct& product);
};

}  // namespace trireme::cpu
