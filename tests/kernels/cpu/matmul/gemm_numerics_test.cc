// Packed products on every instruction set of this machine. The conformance suite checks the newest set
// within a matmul.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/numerics.h"

namespace trireme::cpu {
namespace {

using Floats = std::vector<float>;

struct Extents {
  std::int64_t rows, cols, depth;
};

// Whole strips of all instruction sets, parts of strips, and less than one strip.
constexpr Extents kExtents[] = {{8, 48, 16}, {1, 1, 1},     {7, 47, 130}, {9, 16, 40},
                                {21, 31, 3}, {40, 97, 129}, {16, 2, 5},   {24, 65, 300}};
constexpr std::int64_t kGap = 3;  // elements between rows that must not be touched
constexpr float kUntouched = 77.0f;

std::int64_t whole(std::int64_t count, std::int64_t strip) {
  return (count + strip - 1) / strip * strip;
}

/// Small multiples of 1/8: all element types hold them, and their sums are exact.
Floats random(std::int64_t n) {
  std::mt19937 generator(static_cast<std::mt19937::result_type>(n + 1));
  std::uniform_int_distribution<int> uniform(-16, 16);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>(uniform(generator)) / 8;
  return values;
}

/// Packs [depth, cols] from a matrix of `element`, stored as it is or transposed.
Floats packed(const Numerics& numerics, void (*pack)(const StripCopy&), std::int64_t strip, const Floats& x,
              std::int64_t depth, std::int64_t cols, bool transposed, Element element) {
  const std::int64_t rows = transposed ? cols : depth, pitch = (transposed ? depth : cols) + kGap;
  const std::int64_t used = rows == 0 ? 0 : rows * pitch - kGap;  // no memory after the last row
  Floats lies(static_cast<std::size_t>(used), kUntouched);
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t j = 0; j < cols; ++j) {
      lies[transposed ? j * pitch + k : k * pitch + j] = x[k * cols + j];
    }
  }
  const bool is_16_bit = element == Element::kFp16 || element == Element::kBf16;
  std::vector<std::uint16_t> memory(lies.size() * (is_16_bit ? 1 : 2));
  numerics.cast->write(lies.data(), element, memory.data(), used);
  Floats y(static_cast<std::size_t>(whole(cols, strip) * depth) + 1, kUntouched);
  pack({.x = memory.data(),
        .element = element,
        .pitch = pitch,
        .transposed = transposed,
        .depth = depth,
        .cols = cols,
        .y = y.data()});
  return y;
}

/// c [rows, cols] = or += a' b of a [depth, rows] and b [depth, cols].
void multiply(const Numerics& numerics, const Extents& e, const Floats& a, const Floats& b, float* c,
              std::int64_t pitch, bool accumulate) {
  const GemmNumerics& gemm = *numerics.gemm;
  const Floats a_strips =
      packed(numerics, gemm.pack_a, gemm.row_strip, a, e.depth, e.rows, false, Element::kFp32);
  const Floats b_strips =
      packed(numerics, gemm.pack_b, gemm.col_strip, b, e.depth, e.cols, false, Element::kFp32);
  gemm.multiply({.a = a_strips.data(),
                 .b = b_strips.data(),
                 .c = c,
                 .rows = e.rows,
                 .cols = e.cols,
                 .depth = e.depth,
                 .c_pitch = pitch,
                 .accumulate = accumulate});
}

TEST(GemmNumericsTest, StripsHoldTheMatrixAndZeros) {
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    const GemmNumerics& gemm = *(*n)->gemm;
    for (const Extents& e : kExtents) {
      const Floats x = random(e.depth * e.cols);
      for (const bool transposed : {false, true}) {
        for (const Element element : {Element::kFp32, Element::kFp16, Element::kBf16, Element::kTf32}) {
          for (const bool b : {false, true}) {
            SCOPED_TRACE(testing::Message() << (*n)->isa << " " << e.depth << "x" << e.cols << " "
                                            << transposed << static_cast<int>(element) << b);
            const std::int64_t strip = b ? gemm.col_strip : gemm.row_strip;
            const Floats y =
                packed(**n, b ? gemm.pack_b : gemm.pack_a, strip, x, e.depth, e.cols, transposed, element);
            Floats expected(y.size() - 1);
            for (std::int64_t k = 0; k < e.depth; ++k) {
              for (std::int64_t j = 0; j < e.cols; ++j) {
                expected[j / strip * e.depth * strip + k * strip + j % strip] = x[k * e.cols + j];
              }
            }
            expected.push_back(kUntouched);
            EXPECT_EQ(y, expected);
          }
        }
      }
    }
  }
}

TEST(GemmNumericsTest, ProductsAreExactWhereSumsAre) {
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    for (const Extents& e : kExtents) {
      SCOPED_TRACE(testing::Message() << (*n)->isa << " " << e.rows << "x" << e.cols << "x" << e.depth);
      const Floats a = random(e.depth * e.rows), b = random(e.depth * e.cols);
      const std::int64_t pitch = e.cols + kGap;
      Floats c(static_cast<std::size_t>(e.rows * pitch), kUntouched), expected = c;
      for (const bool accumulate : {false, true}) {
        for (std::int64_t i = 0; i < e.rows; ++i) {
          for (std::int64_t j = 0; j < e.cols; ++j) {
            float sum = accumulate ? expected[i * pitch + j] : 0.0f;
            for (std::int64_t k = 0; k < e.depth; ++k) sum += a[k * e.rows + i] * b[k * e.cols + j];
            expected[i * pitch + j] = sum;
          }
        }
        multiply(**n, e, a, b, c.data(), pitch, accumulate);
        EXPECT_EQ(c, expected) << accumulate;
      }
    }
  }
}

TEST(GemmNumericsTest, NanStaysInItsRowAndColumn) {
  const Extents e{11, 53, 20};
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    Floats a = random(e.depth * e.rows), b = random(e.depth * e.cols), c(e.rows * e.cols);
    a[3 * e.rows + 10] = std::numeric_limits<float>::quiet_NaN();
    b[7 * e.cols + 52] = std::numeric_limits<float>::infinity();
    multiply(**n, e, a, b, c.data(), e.cols, false);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      for (std::int64_t j = 0; j < e.cols; ++j) {
        EXPECT_EQ(std::isfinite(c[i * e.cols + j]), i != 10 && j != 52) << (*n)->isa << " " << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu
