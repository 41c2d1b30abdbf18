// Conversions of 16-bit and TF32 elements: the same bits on every instruction set of this machine.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu/numerics.h"
#include "tests/kernels/cpu/numerics_data.h"

namespace trireme::cpu {
namespace {

// The last table uses the software conversion of the oldest set.
class ConversionTest : public ::testing::TestWithParam<Element> {
 protected:
  template <class Run>
  void expect_same_bits(const Run& run) {
    const auto newest = run(numerics());
    for (const Numerics* const* other = supported_numerics() + 1; *other != nullptr; ++other) {
      const auto older = run(**other);
      ASSERT_EQ(std::memcmp(newest.data(), older.data(), newest.size() * sizeof newest[0]), 0)
          << (*other)->isa << " against " << numerics().isa;
    }
  }
};

// An odd number of values, so that vectors have a tail. Includes NaN with all kinds of payloads.
TEST_P(ConversionTest, ReadsAreTheSameBits) {
  if (GetParam() == Element::kTf32) {
    expect_same_bits([&](const Numerics& n) {
      std::vector<std::uint32_t> words(1 << 21), out(words.size() - 1);
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2039);
      n.cast->read(words.data(), GetParam(), reinterpret_cast<float*>(out.data()),
                   static_cast<std::int64_t>(out.size()));
      return out;
    });
    return;
  }
  expect_same_bits([&](const Numerics& n) {
    std::vector<std::uint16_t> bits(65537);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    std::vector<std::uint32_t> out(bits.size());
    n.cast->read(bits.data(), GetParam(), reinterpret_cast<float*>(out.data()), 65537);
    return out;
  });
}

// Rows and columns that are not multiples of a vector, rows longer than one piece, and larger pitches.
TEST_P(ConversionTest, TransposedReadsAreReads) {
  constexpr std::int64_t kRead = 37, kLength = 531, kFromPitch = 540, kToPitch = 45;
  const Floats values = random(kRead * kFromPitch, 3.0f);
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    const CastNumerics& cast = *(*n)->cast;
    std::vector<std::uint32_t> stored(values.size());  // large enough for every element
    cast.write(values.data(), GetParam(), stored.data(), static_cast<std::int64_t>(values.size()));
    Floats plain(values.size()), transposed(kLength * kToPitch, -7.0f);
    cast.read(stored.data(), GetParam(), plain.data(), static_cast<std::int64_t>(plain.size()));
    cast.read_transposed({.x = stored.data(),
                          .element = GetParam(),
                          .x_pitch = kFromPitch,
                          .rows = kRead,
                          .cols = kLength,
                          .y = transposed.data(),
                          .y_pitch = kToPitch});
    for (std::int64_t j = 0; j < kLength; ++j) {
      for (std::int64_t i = 0; i < kToPitch; ++i) {
        const float expected = i < kRead ? plain[i * kFromPitch + j] : -7.0f;
        ASSERT_EQ(transposed[j * kToPitch + i], expected) << (*n)->isa << " " << i << " " << j;
      }
    }
  }
}

TEST_P(ConversionTest, WritesAreTheSameBits) {
  if (GetParam() == Element::kTf32) GTEST_SKIP() << "tf32 is a conversion of inputs";
  expect_same_bits([&](const Numerics& n) {
    // Every exponent and sign, with ties and their neighbours at every mantissa length.
    std::vector<std::uint32_t> words;
    for (std::uint32_t top = 0; top < 0x20000; ++top) {
      for (const std::uint32_t low : {0u, 1u, 0x0FFFu, 0x1000u, 0x1001u, 0x4FFFu, 0x7FFFu})
        words.push_back(top << 15 | low);
    }
    std::vector<std::uint16_t> out(words.size());
    n.cast->write(reinterpret_cast<const float*>(words.data()), GetParam(), out.data(),
                  static_cast<std::int64_t>(words.size()));
    return out;
  });
}

INSTANTIATE_TEST_SUITE_P(Elements, ConversionTest,
                         ::testing::Values(Element::kFp16, Element::kBf16, Element::kTf32));

}  // namespace
}  // namespace trireme::cpu
