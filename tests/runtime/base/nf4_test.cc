// NF4 codes: equal to the codes of bitsandbytes 0.50.2, and restored from their numbers.
#include "runtime/base/nf4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace trireme {
namespace {

using ::testing::ElementsAre;

struct Codes {
  std::vector<std::uint8_t> codes, scale_codes;
  std::vector<float> scales;

  explicit Codes(std::size_t n)
      : codes((n + 1) / 2),
        scale_codes((n + 63) / 64),
        scales(static_cast<std::size_t>(num_nf4_scales(static_cast<std::int64_t>(n)))) {}
  Nf4Weight spans() { return {.codes = codes, .scale_codes = scale_codes, .scales = scales}; }
  std::vector<float> read(std::int64_t first, std::size_t count) const {
    std::vector<float> numbers(count);
    dequantize_nf4({.codes = codes, .scale_codes = scale_codes, .scales = scales}, first, numbers);
    return numbers;
  }
};

Codes quantized(const std::vector<float>& x, int num_threads = 2) {
  Codes codes(x.size());
  quantize_nf4(x, codes.spans(), num_threads);
  return codes;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& x) {
  std::vector<std::uint32_t> bits;
  for (const float value : x) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

template <class T>
std::uint64_t fnv1a(const std::vector<T>& values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

// More than one block of scales, a short block at the end, and blocks of seven sizes.
std::vector<float> given_numbers() {
  std::vector<float> x(64 * 256 + 64 * 5 + 30);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto residue = static_cast<double>(static_cast<std::int64_t>(i * 7919 % 20011) - 10005);
    const auto factor = static_cast<double>(1 + (i / 64 % 7) * (i / 64 % 7));
    x[i] = static_cast<float>(residue / 65536.0 * factor / 64.0);
  }
  return x;
}

// Expected: quantize_4bit(x, blocksize=64, compress_statistics=True, quant_type="nf4") and its inverse.
TEST(Nf4, GivenNumbersHaveTheCodesOfBitsandbytes) {
  const Codes codes = quantized(given_numbers());
  EXPECT_EQ(fnv1a(codes.codes), 0x72603f150917025au);
  EXPECT_EQ(fnv1a(codes.scale_codes), 0xf3d2a84ac8b48f99u);
  EXPECT_THAT(codes.scales, ElementsAre(0x1.0c960ap-5f, 0x1.c636f6p-5f, 0x1.c0a676p-5f));
  EXPECT_EQ(fnv1a(codes.read(0, given_numbers().size())), 0xf14b1eebd5e65abau);
}

TEST(Nf4, LevelsAscendToOne) {
  const Nf4Levels& all = nf4_levels();
  EXPECT_TRUE(std::ranges::is_sorted(all.levels));
  EXPECT_TRUE(std::ranges::is_sorted(all.dynamic));
  EXPECT_EQ(all.levels[7], 0.0f);
  EXPECT_EQ(all.dynamic[127], 0.0f);
  EXPECT_EQ(all.dynamic[255], 1.0f);
  EXPECT_NEAR(all.dynamic[254], 0.99296875, 1e-7);  // the center of the last of 64 parts
  EXPECT_NEAR(all.dynamic[128], 0.55e-6, 1e-12);
}

TEST(Nf4, PartsAreReadFromABlockOn) {
  const std::vector<float> x = given_numbers();
  const Codes codes = quantized(x);
  const std::vector<float> whole = codes.read(0, x.size());
  for (const std::int64_t first : {64, 64 * 200, 64 * 256, 64 * 259}) {
    const std::vector<float> expected(whole.begin() + first, whole.begin() + first + 100);
    EXPECT_EQ(codes.read(first, 100), expected);
  }
}

TEST(Nf4, ThreadsDoNotChangeCodes) {
  const std::vector<float> x = given_numbers();
  for (const int threads : {1, 3}) {
    EXPECT_EQ(quantized(x, threads).codes, quantized(x).codes);
    EXPECT_EQ(quantized(x, threads).scales, quantized(x).scales);
  }
}

// The numbers of a checkpoint and its scales give the same numbers again, blocks of zeros and scales that
// are read as negative included.
TEST(Nf4, ReadNumbersAreRestoredToTheBit) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  int num_negative = 0;
  for (int draw = 0; draw < 8; ++draw) {
    std::vector<float> x;
    for (const float size : {1.0f, 0.7f / static_cast<float>(draw + 1), 0.0f, 1e-4f, 1e-9f}) {
      for (int i = 0; i < 64 * 100; ++i) x.push_back(size * normal(random));
    }
    x.resize(x.size() - 3);
    const Codes first = quantized(x);
    const std::vector<float> numbers = first.read(0, x.size());
    num_negative +=
        std::ranges::any_of(numbers, [](float value) { return std::signbit(value) && value == 0; });
    Codes again(x.size());
    again.scales = first.scales;
    requantize_nf4(numbers, again.spans(), 2);
    EXPECT_EQ(bits_of(again.read(0, x.size())), bits_of(numbers));
  }
  EXPECT_GT(num_negative, 0) << "no scale of a block of zeros is read as negative";
}

TEST(Nf4, EqualScalesAreExact) {
  for (const std::size_t n : {std::size_t{2}, std::size_t{64}, std::size_t{640}}) {
    std::vector<float> x(n, -0.5f);
    x[1] = 0.5f;
    EXPECT_EQ(quantized(x).read(0, n), x);
  }
}

}  // namespace
}  // namespace trireme
