#include <bit>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A 16-bit format by its definition: value = mantissa * 2^exponent.
struct Format {
  DType dtype;
  int mantissa_bits;
  int min_exponent;  // of the smallest normal
  float largest;
};

constexpr Format kFormats[] = {{DType::kFloat16, 10, -14, 65504.0f},
                               {DType::kBFloat16, 7, -126, 3.38953139e38f}};

// The nearest value that the format holds; std::nearbyint rounds ties to even.
float rounded(float x, const Format& f) {
  if (x == 0.0f || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int step = std::max(exponent - 1, f.min_exponent) - f.mantissa_bits;
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(double{x}, -step)), step);
  if (std::fabs(nearest) > f.largest) return std::copysign(kInfinity, x);
  return static_cast<float>(nearest);
}

class CastTest : public KernelTest {
 protected:
  /// fp32 to `dtype` and back. A 16-bit tensor lives in the first half of an fp32 one.
  static Outputs there_and_back(const Rig& rig, const std::vector<float>& x, DType dtype) {
    const auto n = static_cast<std::int64_t>(x.size());
    const DeviceArray from = rig.upload({n}, x), middle = rig.poisoned({(n + 1) / 2}), to = rig.poisoned({n});
    const TensorView half{middle.view().data, dtype, {n}};
    rig->cast(rig.exec(), {.x = from, .y = half});
    rig->cast(rig.exec(), {.x = half, .y = to});
    middle.download();  // looks at the guard words
    return {to.download()};
  }
};

TEST_P(CastTest, RoundsToNearestEven) {
  for (const Format& f : kFormats) {
    SCOPED_TRACE(std::string(name(f.dtype)));
    std::vector<float> x = {0.0f,      -0.0f,          1.0f,
                            -1.0f,     f.largest,      -f.largest,
                            kInfinity, -kInfinity,     f.largest * 1.0001f,
                            65519.0f,  65520.0f,       65536.0f,
                            1e38f,     5.96e-8f,       2.98e-8f,
                            2.99e-8f,  6.09e-5f,       6.1e-5f,
                            1e-10f,    1.00048828125f, 1.00146484375f};
    for (int exponent = -30; exponent < 17; ++exponent) {
      for (const float value : random(50)) x.push_back(std::ldexp(value, exponent));
    }
    const Outputs out =
        same_bits_for_all_threads([&](const Rig& rig) { return there_and_back(rig, x, f.dtype); });
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(out[0][i]), std::bit_cast<std::uint32_t>(rounded(x[i], f)))
          << x[i] << " became " << out[0][i] << ", not " << rounded(x[i], f);
    }
  }
}

TEST_P(CastTest, NanStaysNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {nan, -nan, std::bit_cast<float>(0x7F800001u),
                                std::bit_cast<float>(0x7FFFFFFFu)};
  for (const Format& f : kFormats) {
    const Outputs out = there_and_back(rig(), x, f.dtype);
    for (const float value : out[0]) EXPECT_TRUE(std::isnan(value));
  }
}

// All 65536 values come back as they were.
TEST_P(CastTest, SixteenBitValuesAreExactInFp32) {
  std::vector<std::int32_t> words(32768);
  for (int i = 0; i < 32768; ++i) words[i] = (2 * i) | ((2 * i + 1) << 16);
  for (const Format& f : kFormats) {
    const Rig r = rig();
    const DeviceArray half = r.upload({32768}, words), wide = r.poisoned({65536}), back = r.poisoned({32768});
    r->cast(r.exec(), {.x = {half.view().data, f.dtype, {65536}}, .y = wide});
    r->cast(r.exec(), {.x = wide, .y = {back.view().data, f.dtype, {65536}}});
    const auto values = wide.download(), result = back.download();
    for (int i = 0; i < 65536; ++i) {
      const auto word = std::bit_cast<std::uint32_t>(result[i / 2]);
      if (!std::isnan(values[i])) {
        ASSERT_EQ((word >> (16 * (i % 2))) & 0xFFFFu, static_cast<std::uint32_t>(i));
      }
    }
  }
}

TEST_P(CastTest, BetweenTheSixteenBitTypesAndToItself) {
  const Rig r = rig();
  const auto x = random(1001);
  const DeviceArray from = r.upload({1001}, x), a = r.poisoned({501}), b = r.poisoned({501}),
                    to = r.poisoned({1001});
  const TensorView bf16{a.view().data, DType::kBFloat16, {1001}},
      fp16{b.view().data, DType::kFloat16, {1001}};
  r->cast(r.exec(), {.x = from, .y = bf16});
  r->cast(r.exec(), {.x = bf16, .y = fp16});
  r->cast(r.exec(), {.x = fp16, .y = to});
  const auto out = to.download();
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(out[i], rounded(rounded(x[i], kFormats[1]), kFormats[0])) << x[i];
  }
  r->cast(r.exec(), {.x = from, .y = to});
  EXPECT_TRUE(same_bits(to.download(), x));
}

TEST_P(CastTest, RefusesIntegers) {
  const Rig r = rig();
  const DeviceArray to = r.poisoned({2});
  EXPECT_THROW(r->cast(r.exec(), {.x = r.upload({2}, std::vector<std::int32_t>{1, 2}), .y = to}), Error);
}

TRIREME_INSTANTIATE_KERNEL_TEST(CastTest);

}  // namespace
}  // namespace trireme::testing
