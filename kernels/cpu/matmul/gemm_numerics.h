// The tables of numerics.h for products of packed matrices. Serial functions over raw pointers, as
// [Note: instruction sets] requires.
#pragma once

#include <cstdint>

namespace trireme::cpu {

enum class Element : std::uint8_t;

/// A matrix [depth, cols] in strips of `width` columns. Element (k, j) is at y[j / width * depth * width + k
/// * width + j % width]. A last strip that is wider than the matrix is filled with zeros. The copy takes
/// ceil(cols / width) * width * depth floats. For some rows of a deeper matrix, strip_depth is the depth of
/// that matrix, and takes the place of `depth` above.
struct StripCopy {
  const void* x;
  Element element;
  std::int64_t pitch;  // elements from one row of x to the next
  bool transposed;     // x is [cols, depth]
  std::int64_t depth, cols;
  float* y;
  std::int64_t strip_depth = 0;  // 0: depth
};

/// c = a b, or c += a b. Each element's sum over depth is one chain of multiply-adds, in order.
struct StripProduct {
  const float* a;  // strips of row_strip: a's transpose, [depth, rows]
  const float* b;  // strips of col_strip: [depth, cols]
  float* c;        // [rows, cols], rows c_pitch apart
  std::int64_t rows, cols, depth, c_pitch;
  bool accumulate;
  bool prefetch_b = false;  // the next product reads the memory after b, which is not in cache
};

struct GemmNumerics {
  std::int64_t row_strip, col_strip;  // the size of a register tile
  void (*pack_a)(const StripCopy& copy);
  void (*pack_b)(const StripCopy& copy);
  void (*multiply)(const StripProduct& product);
};

}  // namespace trireme::cpu
