#include <bit>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr DType kSixteenBit[] = {DType::kFloat16, DType::kBFloat16};

class CastTest : public KernelTest {
 protected:
  /// fp32 to `dtype` and back.
  static Outputs there_and_back(const Rig& rig, const std::vector<float>& x, DType dtype) {
    const auto n = static_cast<std::int64_t>(x.size());
    const DeviceArray from = rig.upload({n}, x), middle = rig.poisoned({n}, dtype), to = rig.poisoned({n});
    rig.run(CastArgs{.x = from, .y = middle});
    rig.run(CastArgs{.x = middle, .y = to});
    middle.download();  // checks the guard bytes
    return {to.download()};
  }
};

TEST_P(CastTest, RoundsToNearestEven) {
  for (const DType dtype : kSixteenBit) {
    SCOPED_TRACE(std::string(name(dtype)));
    const float largest = format_of(dtype).largest;
    std::vector<float> x = {0.0f,      -0.0f,          1.0f,
                            -1.0f,     largest,        -largest,
                            kInfinity, -kInfinity,     largest * 1.0001f,
                            65519.0f,  65520.0f,       65536.0f,
                            1e38f,     5.96e-8f,       2.98e-8f,
                            2.99e-8f,  6.09e-5f,       6.1e-5f,
                            1e-10f,    1.00048828125f, 1.00146484375f};
    for (int exponent = -30; exponent < 17; ++exponent) {
      for (const float value : random(50)) x.push_back(std::ldexp(value, exponent));
    }
    const Outputs out =
        same_bits_for_all_threads([&](const Rig& rig) { return there_and_back(rig, x, dtype); });
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(out[0][i]), std::bit_cast<std::uint32_t>(rounded(x[i], dtype)))
          << x[i] << " became " << out[0][i] << ", not " << rounded(x[i], dtype);
    }
  }
}

TEST_P(CastTest, NanStaysNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {nan, -nan, std::bit_cast<float>(0x7F800001u),
                                std::bit_cast<float>(0x7FFFFFFFu)};
  for (const DType dtype : kSixteenBit) {
    const Outputs out = there_and_back(rig(), x, dtype);
    for (const float value : out[0]) EXPECT_TRUE(std::isnan(value));
  }
}

// All 65536 values survive the round trip.
TEST_P(CastTest, SixteenBitValuesAreExactInFp32) {
  for (const DType dtype : kSixteenBit) {
    std::vector<float> values(65536);
    for (int i = 0; i < 65536; ++i) values[i] = value_of(static_cast<std::uint16_t>(i), dtype);
    const Rig r = rig();
    const DeviceArray half = r.upload({65536}, values, dtype), wide = r.poisoned({65536});
    const DeviceArray back = r.poisoned({65536}, dtype);
    r.run(CastArgs{.x = half, .y = wide});
    r.run(CastArgs{.x = wide, .y = back});
    const auto read = wide.download(), result = back.download();
    for (int i = 0; i < 65536; ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(read[i]) && std::isnan(result[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(read[i]), std::bit_cast<std::uint32_t>(values[i])) << i;
        ASSERT_EQ(bits_of(result[i], dtype), i);
      }
    }
  }
}

TEST_P(CastTest, BetweenTheSixteenBitTypesAndToItself) {
  const Rig r = rig();
  const auto x = random(1001);
  const DeviceArray from = r.upload({1001}, x), to = r.poisoned({1001});
  const DeviceArray bf16 = r.poisoned({1001}, DType::kBFloat16), fp16 = r.poisoned({1001}, DType::kFloat16);
  r.run(CastArgs{.x = from, .y = bf16});
  r.run(CastArgs{.x = bf16, .y = fp16});
  r.run(CastArgs{.x = fp16, .y = to});
  const auto out = to.download();
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(out[i], rounded(rounded(x[i], kBf16), kFp16)) << x[i];
  }
  r.run(CastArgs{.x = from, .y = to});
  EXPECT_TRUE(same_bits(to.download(), x));
}

// A working copy with a center is rounded once, after the subtraction in fp32.
TEST_P(CastTest, SubtractsACenter) {
  for (const DType dtype : kFloatTypes) {
    auto x = random(40001, 0.01f);
    for (float& value : x) value += 1.0f;
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray from = rig.upload({40001}, x), to = rig.poisoned({40001}, dtype);
      rig.run(CastArgs{.x = from, .y = to, .center = 1.0f});
      return {to.download()};
    });
    for (float& value : x) value -= 1.0f;
    EXPECT_TRUE(same_bits(out[0], rounded(x, dtype))) << name(dtype);
  }
}

TEST_P(CastTest, RefusesIntegers) {
  const Rig r = rig();
  const DeviceArray to = r.poisoned({2});
  EXPECT_THROW(r.run(CastArgs{.x = r.upload({2}, std::vector<std::int32_t>{1, 2}), .y = to}), Error);
}

TRIREME_INSTANTIATE_KERNEL_TEST(CastTest);

}  // namespace
}  // namespace trireme::testing
