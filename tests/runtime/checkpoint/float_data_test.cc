#include "runtime/checkpoint/float_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

std::uint16_t rounded(float value, DType dtype) {
  std::vector<std::byte> bytes;
  append_rounded(std::vector<float>{value}, dtype, bytes);
  EXPECT_EQ(bytes.size(), sizeof(std::uint16_t));
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data(), sizeof bits);
  return bits;
}

float read(std::uint16_t bits, const char* dtype) {
  // At an odd address, as data in a file may be.
  std::byte memory[1 + sizeof bits];
  std::memcpy(memory + 1, &bits, sizeof bits);
  SafetensorsTensor tensor{{"t", dtype, {1}}, std::span(memory).subspan(1), 1};
  float value = 0;
  copy_as_floats(tensor, 0, std::span(&value, 1));
  return value;
}

/// Decodes IEEE 754: sign, exponent, fraction.
double value_of(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const double scale = exponent == 0 ? 1 - bias : exponent - bias;
  return sign * std::ldexp((exponent == 0 ? 0.0 : 1.0) + std::ldexp(fraction, -fraction_bits),
                           static_cast<int>(scale));
}

TEST(FloatData, EveryNumberOf16BitsIsReadExactlyAndComesBack) {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    for (const auto& [name, dtype, exponent_bits] :
         {std::tuple{"F16", DType::kFloat16, 5}, std::tuple{"BF16", DType::kBFloat16, 8}}) {
      const float value = read(bits, name);
      const double expected = value_of(bits, exponent_bits);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << name << bits;
        EXPECT_TRUE(std::isnan(read(rounded(value, dtype), name))) << name << bits;
        continue;
      }
      ASSERT_EQ(value, expected) << name << bits;
      ASSERT_EQ(rounded(value, dtype), bits) << name;
    }
  }
}

// Midpoints round to the even neighbour, all others to the nearer one.
TEST(FloatData, RoundsToNearest) {
  for (const auto& [name, dtype, last] :
       {std::tuple{"F16", DType::kFloat16, 0x7BFF}, std::tuple{"BF16", DType::kBFloat16, 0x7F7F}}) {
    for (int i = 0; i < last; ++i) {
      const auto low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(i + 1);
      const float middle = static_cast<float>((double{read(low, name)} + double{read(high, name)}) / 2);
      ASSERT_EQ(rounded(middle, dtype), i % 2 == 0 ? low : high) << name << i;
      ASSERT_EQ(rounded(std::nextafter(middle, 0.0f), dtype), low) << name << i;
      ASSERT_EQ(rounded(std::nextafter(middle, std::numeric_limits<float>::infinity()), dtype), high)
          << name << i;
    }
  }
  for (const auto& [dtype, infinite] : {std::pair{DType::kFloat16, 0x7C00}, {DType::kBFloat16, 0x7F80}}) {
    const float first = float_format(dtype).first_infinite;
    EXPECT_EQ(rounded(first, dtype), infinite);
    EXPECT_EQ(rounded(-first, dtype), infinite | 0x8000);
    EXPECT_EQ(rounded(std::nextafter(first, 0.0f), dtype), infinite - 1);
    EXPECT_EQ(rounded(std::numeric_limits<float>::infinity(), dtype), infinite);
  }
}

TEST(FloatData, KnowsWhatHoldsFloats) {
  EXPECT_TRUE(is_float_data({"t", "F32", {}}));
  EXPECT_FALSE(is_float_data({"t", "F64", {}}));
  EXPECT_FALSE(is_float_data({"t", "I32", {}}));
  EXPECT_EQ(float_format(DType::kBFloat16).safetensors_name, "BF16");
  EXPECT_EQ(testing::message_of([] { (void)float_format(DType::kInt32); }), "int32 holds no floats");
}

}  // namespace
}  // namespace trireme
