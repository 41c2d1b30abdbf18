// Packed products on every instruction set of this machine. The conformance suite checks the newest set
// within a matmul.
#include <gtest/gtest.h>
#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
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

/// A strip's words for `depth`.
std::int64_t words_of(const GemmNumerics& gemm, std::int64_t depth) {
  return whole((depth + gemm.per_word - 1) / gemm.per_word, gemm.word_step);
}

enum class Side { kA, kB };

/// Where a strip has word `word` of its column `j`.
std::int64_t place_in_strip(const GemmNumerics& gemm, Side side, std::int64_t strip, std::int64_t word,
                            std::int64_t j) {
  const std::int64_t step = gemm.word_step;
  if (side == Side::kB || step == 1) return word * strip + j;
  return word / step * step * strip + j * step + word % step;
}

/// Packs [depth, cols] from a matrix of `element`, stored as it is or transposed.
Floats packed(const Numerics& numerics, Side side, const Floats& x, std::int64_t depth, std::int64_t cols,
              bool transposed, Element element) {
  const GemmNumerics& gemm = gemm_for(numerics, element);
  const std::int64_t strip = side == Side::kA ? gemm.row_strip : gemm.col_strip;
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
  Floats y(static_cast<std::size_t>(whole(cols, strip) * words_of(gemm, depth)) + 1, kUntouched);
  (side == Side::kA ? gemm.pack_a : gemm.pack_b)({.x = memory.data(),
                                                  .element = element,
                                                  .pitch = pitch,
                                                  .transposed = transposed,
                                                  .depth = depth,
                                                  .cols = cols,
                                                  .y = y.data()});
  return y;
}

/// The word of a strip that holds `low`, or low and high as bf16.
float word_of(const Numerics& numerics, const GemmNumerics& gemm, float low, float high) {
  if (gemm.per_word == 1) return low;
  const float pair[2] = {low, high};
  std::uint16_t bits[2];
  numerics.cast->write(pair, Element::kBf16, bits, 2);
  float word = 0;
  std::memcpy(&word, bits, sizeof word);
  return word;
}

/// c [rows, cols] = or += a' b of a [depth, rows] and b [depth, cols].
void multiply(const Numerics& numerics, Element element, const Extents& e, const Floats& a, const Floats& b,
              float* c, std::int64_t pitch, bool accumulate) {
  const Floats a_strips = packed(numerics, Side::kA, a, e.depth, e.rows, false, element);
  const Floats b_strips = packed(numerics, Side::kB, b, e.depth, e.cols, false, element);
  gemm_for(numerics, element)
      .multiply({.a = a_strips.data(),
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
    for (const Extents& e : kExtents) {
      const Floats x = random(e.depth * e.cols);
      for (const bool transposed : {false, true}) {
        for (const Element element : {Element::kFp32, Element::kFp16, Element::kBf16, Element::kTf32}) {
          for (const Side side : {Side::kA, Side::kB}) {
            SCOPED_TRACE(testing::Message()
                         << (*n)->isa << " " << e.depth << "x" << e.cols << " " << transposed
                         << static_cast<int>(element) << static_cast<int>(side));
            const GemmNumerics& gemm = gemm_for(**n, element);
            const std::int64_t strip = side == Side::kA ? gemm.row_strip : gemm.col_strip;
            const std::int64_t words = words_of(gemm, e.depth);
            const Floats y = packed(**n, side, x, e.depth, e.cols, transposed, element);
            Floats expected(y.size() - 1);
            const auto value = [&](std::int64_t k, std::int64_t j) {
              return k < e.depth ? x[k * e.cols + j] : 0.0f;
            };
            for (std::int64_t word = 0; word < words; ++word) {
              for (std::int64_t j = 0; j < e.cols; ++j) {
                const std::int64_t k = word * gemm.per_word;
                expected[j / strip * words * strip + place_in_strip(gemm, side, strip, word, j % strip)] =
                    word_of(**n, gemm, value(k, j), value(k + 1, j));
              }
            }
            expected.push_back(kUntouched);
            // As bits: a word of two elements may be NaN as a float.
            EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof y[0]), 0);
          }
        }
      }
    }
  }
}

TEST(GemmNumericsTest, ProductsAreExactWhereSumsAre) {
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    for (const Element element : {Element::kFp32, Element::kBf16}) {
      for (const Extents& e : kExtents) {
        SCOPED_TRACE(testing::Message() << (*n)->isa << " " << static_cast<int>(element) << " " << e.rows
                                        << "x" << e.cols << "x" << e.depth);
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
          multiply(**n, element, e, a, b, c.data(), pitch, accumulate);
          EXPECT_EQ(c, expected) << accumulate;
        }
      }
    }
  }
}

/// Values of every magnitude, whose sums round.
Floats rough(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = normal(generator);
  return values;
}

/// Columns [first, first + count) of x [depth, cols].
Floats some_columns(const Floats& x, std::int64_t depth, std::int64_t cols, std::int64_t first,
                    std::int64_t count) {
  Floats part;
  for (std::int64_t k = 0; k < depth; ++k) {
    part.insert(part.end(), x.begin() + k * cols + first, x.begin() + k * cols + first + count);
  }
  return part;
}

// [Note: panels] needs this: tiles of any size and place give an element the same bits.
TEST(GemmNumericsTest, AnElementsBitsDependOnItsRowAndColumnAlone) {
  constexpr Extents kAll{19, 113, 301};
  const Floats a = rough(kAll.depth * kAll.rows, 1), b = rough(kAll.depth * kAll.cols, 2);
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    for (const Element element : {Element::kFp32, Element::kFp16, Element::kBf16, Element::kTf32}) {
      Floats all(kAll.rows * kAll.cols);
      multiply(**n, element, kAll, a, b, all.data(), kAll.cols, false);
      for (const Extents& part : {Extents{1, 1, kAll.depth}, {3, 16, kAll.depth}, {5, 49, kAll.depth}}) {
        for (const auto& [row, col] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {11, 64}, {14, 37}}) {
          Floats c(static_cast<std::size_t>(part.rows * part.cols));
          multiply(**n, element, part, some_columns(a, kAll.depth, kAll.rows, row, part.rows),
                   some_columns(b, kAll.depth, kAll.cols, col, part.cols), c.data(), part.cols, false);
          for (std::int64_t i = 0; i < part.rows; ++i) {
            const float* expected = all.data() + (row + i) * kAll.cols + col;
            EXPECT_EQ(std::memcmp(c.data() + i * part.cols, expected, part.cols * sizeof(float)), 0)
                << (*n)->isa << " " << static_cast<int>(element) << " " << row << " " << col << " " << i;
          }
        }
      }
    }
  }
}

// Sums of pairs are fp32 sums: their error is that of fp32 arithmetic on the rounded operands.
TEST(GemmNumericsTest, PairsAreSummedInFp32) {
  const Numerics& newest = *supported_numerics()[0];
  if (newest.bf16_gemm == newest.gemm) GTEST_SKIP() << "this processor has neither AVX512_BF16 nor AMX";
  constexpr Extents kAll{16, 48, 2048};
  const auto rounded = [&](Floats x) {
    std::vector<std::uint16_t> bits(x.size());
    newest.cast->write(x.data(), Element::kBf16, bits.data(), static_cast<std::int64_t>(x.size()));
    newest.cast->read(bits.data(), Element::kBf16, x.data(), static_cast<std::int64_t>(x.size()));
    return x;
  };
  const Floats a = rounded(rough(kAll.depth * kAll.rows, 3)), b = rounded(rough(kAll.depth * kAll.cols, 4));
  Floats c(kAll.rows * kAll.cols);
  multiply(newest, Element::kBf16, kAll, a, b, c.data(), kAll.cols, false);
  for (std::int64_t i = 0; i < kAll.rows; ++i) {
    for (std::int64_t j = 0; j < kAll.cols; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < kAll.depth; ++k) {
        const double product = double{a[k * kAll.rows + i]} * b[k * kAll.cols + j];
        sum += product;
        magnitude += std::abs(product);
      }
      // The bound of any order of fp32 sums: depth * 2^-24 of the magnitude.
      EXPECT_LE(std::abs(c[i * kAll.cols + j] - sum), kAll.depth * 0x1p-24 * magnitude) << i << " " << j;
    }
  }
}

/// The tables of an instruction set, or null where this machine cannot run it.
const Numerics* supported(std::string_view isa) {
  const Numerics* const* n = supported_numerics();
  while (*n != nullptr && (*n)->isa != isa) ++n;
  return *n;
}

// The order of [Note: tiles of pairs], from Intel's description of TDPBF16PS.
TEST(GemmNumericsTest, TilesSumFirstAndSecondElementsSeparately) {
  const Numerics* const tiles = supported("x86_64_v4_amx");
  if (tiles == nullptr) GTEST_SKIP() << "this processor has no AMX, or the kernel does not permit it";
  constexpr Extents kAll{21, 37, 301};
  constexpr std::int64_t kDepthOfTile = 32;
  const auto rounded = [&](Floats x) {
    std::vector<std::uint16_t> bits(x.size());
    tiles->cast->write(x.data(), Element::kBf16, bits.data(), static_cast<std::int64_t>(x.size()));
    tiles->cast->read(bits.data(), Element::kBf16, x.data(), static_cast<std::int64_t>(x.size()));
    return x;
  };
  const Floats a = rounded(rough(kAll.depth * kAll.rows, 5)), b = rounded(rough(kAll.depth * kAll.cols, 6));
  const Floats c = rough(kAll.rows * kAll.cols, 7);
  for (const bool accumulate : {false, true}) {
    Floats actual = c, expected = c;
    multiply(*tiles, Element::kBf16, kAll, a, b, actual.data(), kAll.cols, accumulate);
    for (std::int64_t i = 0; i < kAll.rows; ++i) {
      for (std::int64_t j = 0; j < kAll.cols; ++j) {
        float sum = 0;
        for (std::int64_t first = 0; first < kAll.depth; first += kDepthOfTile) {
          float of_pairs[2] = {};
          for (std::int64_t k = first; k < std::min(first + kDepthOfTile, kAll.depth); ++k) {
            of_pairs[k % 2] = std::fma(a[k * kAll.rows + i], b[k * kAll.cols + j], of_pairs[k % 2]);
          }
          sum += of_pairs[0] + of_pairs[1];
        }
        float& to = expected[i * kAll.cols + j];
        to = accumulate ? to + sum : sum;
      }
    }
    EXPECT_EQ(actual, expected) << accumulate;
  }
}

#if defined(__x86_64__) && defined(__linux__)
// Lets the kernel refuse requests for tile registers.
bool refuse_tiles() {
  constexpr unsigned kRequestPermission = 0x1023;
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRequestPermission, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof rules / sizeof rules[0], rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(GemmNumericsTest, TilesThatTheKernelRefusesAreNotUsed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts anew, before the tables are chosen
  EXPECT_EXIT(
      {
        if (!refuse_tiles()) std::_Exit(2);
        const bool usable =
            supported("x86_64_v4_amx") != nullptr || numerics().isa == std::string("x86_64_v4_amx");
        std::_Exit(usable ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}
#endif

TEST(GemmNumericsTest, NanStaysInItsRowAndColumn) {
  const Extents e{11, 53, 20};
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    for (const Element element : {Element::kFp32, Element::kBf16}) {
      Floats a = random(e.depth * e.rows), b = random(e.depth * e.cols), c(e.rows * e.cols);
      a[3 * e.rows + 10] = std::numeric_limits<float>::quiet_NaN();
      b[7 * e.cols + 52] = std::numeric_limits<float>::infinity();
      multiply(**n, element, e, a, b, c.data(), e.cols, false);
      for (std::int64_t i = 0; i < e.rows; ++i) {
        for (std::int64_t j = 0; j < e.cols; ++j) {
          EXPECT_EQ(std::isfinite(c[i * e.cols + j]), i != 10 && j != 52)
              << (*n)->isa << " " << static_cast<int>(element) << " " << i << " " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu
