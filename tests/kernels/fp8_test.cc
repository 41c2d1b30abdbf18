// The fp8 formats against the OCP specification of every code, the kernel that makes codes, and the kernel
// that updates histories.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/base/fp8.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The formula of OFP8, table 1: (-1)^s 2^(e - bias) 1.m, and 2^(1 - bias) 0.m for e = 0. e4m3 has no infinity
// and one NaN per sign; e5m2 follows IEEE.
double value_by_definition(int code, int exponent_bits, int mantissa_bits, int bias) {
  const int e = (code >> mantissa_bits) & ((1 << exponent_bits) - 1), m = code & ((1 << mantissa_bits) - 1);
  const double sign = code & 0x80 ? -1.0 : 1.0, fraction = std::ldexp(m, -mantissa_bits);
  const bool top = e == (1 << exponent_bits) - 1;
  if (mantissa_bits == 3 && top && m == 7) return kNan;
  if (mantissa_bits == 2 && top) return m == 0 ? sign * kInfinity : kNan;
  return sign * (e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, e - bias));
}

struct Named {
  DType dtype;
  Fp8Format format;
  int exponent_bits;
};
constexpr Named kFormats[] = {{DType::kE4m3, kE4m3, 4}, {DType::kE5m2, kE5m2, 5}};

double defined(int code, const Named& f) {
  return value_by_definition(code, f.exponent_bits, f.format.mantissa_bits, f.format.bias);
}

TEST(Fp8Formats, HaveTheSpecifiedLimits) {
  EXPECT_EQ(float_of_fp8(0x7E, kE4m3), 448.0f);
  EXPECT_EQ(float_of_fp8(0x08, kE4m3), 0x1p-6f);    // smallest normal
  EXPECT_EQ(float_of_fp8(0x07, kE4m3), 0x1.cp-7f);  // largest subnormal
  EXPECT_EQ(float_of_fp8(0x01, kE4m3), 0x1p-9f);
  EXPECT_EQ(float_of_fp8(0x7B, kE5m2), 57344.0f);
  EXPECT_EQ(float_of_fp8(0x04, kE5m2), 0x1p-14f);
  EXPECT_EQ(float_of_fp8(0x03, kE5m2), 0x1.8p-15f);
  EXPECT_EQ(float_of_fp8(0x01, kE5m2), 0x1p-16f);
  EXPECT_EQ(float_of_fp8(0xFC, kE5m2), -kInfinity);
}

TEST(Fp8Formats, EveryCodeDecodesExactlyAndComesBack) {
  for (const Named& f : kFormats) {
    for (int code = 0; code < 256; ++code) {
      const float value = float_of_fp8(static_cast<std::uint8_t>(code), f.format);
      if (std::isnan(defined(code, f))) {
        EXPECT_TRUE(std::isnan(value)) << code;
        EXPECT_TRUE(std::isnan(float_of_fp8(fp8_of(value, f.format), f.format))) << code;
        continue;
      }
      EXPECT_EQ(value, defined(code, f)) << code;
      EXPECT_EQ(std::signbit(value), code >= 128) << code;
      EXPECT_EQ(fp8_of(value, f.format), code);
    }
  }
}

// Between two neighbours, the midpoint rounds to the even code, and one fp32 step off it to the nearer one.
TEST(Fp8Formats, RoundToNearestEvenBetweenAllNeighbours) {
  for (const Named& f : kFormats) {
    for (std::uint32_t code = 0; code < f.format.largest; ++code) {
      const auto middle = static_cast<float>(
          (defined(static_cast<int>(code), f) + defined(static_cast<int>(code) + 1, f)) / 2);
      const std::uint32_t even = code % 2 == 0 ? code : code + 1;
      for (const std::uint32_t sign : {0u, 0x80u}) {
        const float s = sign == 0 ? 1.0f : -1.0f;
        EXPECT_EQ(fp8_of(s * middle, f.format), sign | even) << code;
        EXPECT_EQ(fp8_of(s * std::nextafter(middle, 0.0f), f.format), sign | code) << code;
        EXPECT_EQ(fp8_of(s * std::nextafter(middle, kInfinity), f.format), sign | (code + 1)) << code;
      }
    }
  }
}

TEST(Fp8Formats, WhatIsFiniteSaturatesAndWhatIsNotStays) {
  for (const Named& f : kFormats) {
    const float largest = float_of_fp8(static_cast<std::uint8_t>(f.format.largest), f.format);
    for (const float x : {largest, std::nextafter(largest, kInfinity), 1.05f * largest, 1.5f * largest, 1e9f,
                          std::numeric_limits<float>::max()}) {
      EXPECT_EQ(fp8_of(x, f.format), f.format.largest) << x;
      EXPECT_EQ(fp8_of(-x, f.format), 0x80u | f.format.largest) << x;
    }
    EXPECT_TRUE(std::isnan(float_of_fp8(fp8_of(kNan, f.format), f.format)));
    EXPECT_TRUE(std::isnan(float_of_fp8(fp8_of(-kNan, f.format), f.format)));
    for (const float tiny : {1e-30f, std::numeric_limits<float>::denorm_min(), 0.0f}) {
      EXPECT_EQ(fp8_of(tiny, f.format), 0);
      EXPECT_EQ(fp8_of(-tiny, f.format), 0x80);
    }
  }
  EXPECT_EQ(float_of_fp8(fp8_of(kInfinity, kE5m2), kE5m2), kInfinity);
  EXPECT_TRUE(std::isnan(float_of_fp8(fp8_of(-kInfinity, kE4m3), kE4m3)));
}

TEST(Fp8Scales, AreTheLargestPowerOfTwoThatFits) {
  for (const Named& f : kFormats) {
    const float largest = float_of_fp8(static_cast<std::uint8_t>(f.format.largest), f.format);
    for (const float amax :
         {0.875f, std::nextafter(0.875f, 1.0f), 0.8f, 1.0f, 3e-7f, 12345.0f, 448.0f, 449.0f}) {
      const int k = fp8_scale_exponent(amax, f.format);
      EXPECT_LE(std::ldexp(amax, k), largest) << amax;
      EXPECT_GT(std::ldexp(amax, k + 1), largest) << amax;
    }
    EXPECT_EQ(fp8_scale_exponent(0.0f, f.format), 0);
    EXPECT_EQ(fp8_scale_exponent(kInfinity, f.format), 0);
    EXPECT_EQ(fp8_scale_exponent(kNan, f.format), 0);
    EXPECT_EQ(fp8_scale_exponent(1e-38f, f.format), 60);
    EXPECT_EQ(fp8_scale_exponent(1e38f, f.format), -60);
  }
}

TEST(Fp8Scales, ClippedIsWhatAScaleOfItsOwnWouldNotHaveLost) {
  EXPECT_FALSE(fp8_was_clipped(5.0f, 0.0f));  // no history yet
  EXPECT_FALSE(fp8_was_clipped(0.0f, 1e-3f));
  EXPECT_FALSE(fp8_was_clipped(1.0f, 1.0f));
  EXPECT_FALSE(fp8_was_clipped(1.7f, 1.0f));  // the scale of 1 has room up to 1.75
  EXPECT_TRUE(fp8_was_clipped(1.76f, 1.0f));
}

class Fp8Test : public KernelTest {
 protected:
  struct Codes {
    std::vector<std::uint8_t> codes;
    float inverse_scale;
  };
  static std::vector<std::uint8_t> bytes_of(const Rig& rig, const DeviceArray& array, std::size_t n) {
    std::vector<std::uint8_t> bytes(n);
    rig->copy_to_host(rig.exec(), bytes.data(), array.view());
    return bytes;
  }
  static Codes quantized(const Rig& rig, const std::vector<float>& x, DType from, DType to,
                         const std::vector<float>& history = {}) {
    const auto n = static_cast<std::int64_t>(x.size());
    const DeviceArray in = rig.upload({n}, x, from), codes = rig.poisoned({n}, to), scale = rig.poisoned({});
    const DeviceArray maxima = rig.upload({kFp8HistoryElems}, std::vector<float>(kFp8HistoryElems, 0.0f));
    if (!history.empty()) {
      const DeviceArray given = rig.upload({kFp8HistoryElems}, history);
      rig.run(QuantizeArgs{.x = in, .out = {.history = given, .codes = codes, .inverse_scale = scale}});
    } else {
      rig.run(QuantizeArgs{.x = in, .out = {.history = maxima, .codes = codes, .inverse_scale = scale}});
    }
    return {bytes_of(rig, codes, x.size()), scale.download()[0]};
  }
};

std::vector<float> history_of(float amax) {
  std::vector<float> history(kFp8HistoryElems, 0.0f);
  history[3] = amax;
  history[5] = amax / 2;
  history[kFp8History] = 1e9f;  // not a maximum
  return history;
}

TEST_P(Fp8Test, QuantizeUsesTheHistoryAndItsOwnMaximumWithoutOne) {
  for (const DType from : kFloatTypes) {
    for (const Named& f : kFormats) {
      for (const std::int64_t n : {1, 7, 40001}) {
        const auto x = random(n, 3.0f, from);
        float amax = 0.0f;
        for (const float value : x) amax = std::max(amax, std::fabs(value));
        for (const float reference : {0.0f, 1.0f, 100.0f}) {
          const Codes out = quantized(rig(), x, from, f.dtype,
                                      reference == 0.0f ? std::vector<float>{} : history_of(reference));
          const int k = fp8_scale_exponent(reference == 0.0f ? amax : reference, f.format);
          EXPECT_EQ(out.inverse_scale, std::ldexp(1.0f, -k));
          for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(out.codes[i], fp8_of(std::ldexp(x[i], k), f.format)) << x[i] << " of " << name(from);
          }
        }
      }
    }
  }
}

TEST_P(Fp8Test, QuantizeLeavesTheMaximumBehindWhateverTheThreads) {
  const auto x = random(40001, 2.0f, DType::kBFloat16);
  float amax = 0.0f;
  for (const float value : x) amax = std::max(amax, std::fabs(value));
  for (const float before : {0.0f, 1e6f}) {
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray in = rig.upload({40001}, x, DType::kBFloat16), scale = rig.poisoned({});
      const DeviceArray codes = rig.poisoned({40001}, DType::kE5m2), sample = rig.scalar(before);
      const DeviceArray history = rig.upload({kFp8HistoryElems}, history_of(1.0f));
      rig.run(QuantizeArgs{
          .x = in, .out = {.history = history, .codes = codes, .inverse_scale = scale, .amax = sample}});
      return {scale.download(), sample.download()};
    });
    EXPECT_EQ(out[0][0], 0x1p-15f);  // for e5m2, as 1 is in (0.875, 1.75]
    EXPECT_EQ(out[1][0], std::max(before, amax));
  }
}

TEST_P(Fp8Test, QuantizeKeepsNanAndCountsInfinityAsTheMaximum) {
  const std::vector<float> x = {1.0f, kNan, -kInfinity, 2.0f};
  const Rig r = rig();
  const DeviceArray in = r.upload({4}, x), codes = r.poisoned({4}, DType::kE4m3), scale = r.poisoned({});
  const DeviceArray history = r.upload({kFp8HistoryElems}, history_of(1.0f)), sample = r.scalar(0.0f);
  r.run(QuantizeArgs{.x = in,
                     .out = {.history = history, .codes = codes, .inverse_scale = scale, .amax = sample}});
  const auto out = bytes_of(r, codes, 4);
  EXPECT_EQ(out[0], fp8_of(256.0f, kE4m3));
  EXPECT_TRUE(std::isnan(float_of_fp8(out[1], kE4m3)));
  EXPECT_TRUE(std::isnan(float_of_fp8(out[2], kE4m3)));
  EXPECT_EQ(out[3], kE4m3.largest);  // clipped: it would be 512
  EXPECT_EQ(sample.download()[0], kInfinity);
}

// Every rounding boundary, by the kernel, which may convert by other means than fp8_of().
TEST_P(Fp8Test, QuantizeRoundsLikeTheFormat) {
  for (const Named& f : kFormats) {
    const float largest = float_of_fp8(static_cast<std::uint8_t>(f.format.largest), f.format);
    std::vector<float> x = {0.0f, 1e-30f, 1.05f * largest, 1e30f};
    for (std::uint32_t code = 0; code < f.format.largest; ++code) {
      const double low = defined(static_cast<int>(code), f), high = defined(static_cast<int>(code) + 1, f);
      const auto middle = static_cast<float>((low + high) / 2);
      for (const float value : {static_cast<float>(low), std::nextafter(middle, 0.0f), middle,
                                std::nextafter(middle, kInfinity)}) {
        x.push_back(value);
      }
    }
    for (const float special : {0.0f, kInfinity, kNan}) {
      std::vector<float> values = x;
      if (special != 0.0f) values.insert(values.end(), 3, special);
      const std::size_t half = values.size();
      for (std::size_t i = 0; i < half; ++i) values.push_back(-values[i]);
      const Codes out = quantized(rig(), values, DType::kFloat32, f.dtype, history_of(largest));
      EXPECT_EQ(out.inverse_scale, 1.0f);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(out.codes[i], fp8_of(values[i], f.format)) << values[i];
      }
    }
  }
}

// The transposed codes equal the codes, whichever of both are wanted.
TEST_P(Fp8Test, QuantizeTurnsCodes) {
  struct Sizes {
    std::int64_t rows, cols;
  };
  for (const auto [rows, cols] :
       {Sizes{1, 1}, {3, 7}, {4, 8}, {64, 129}, {129, 64}, {132, 200}, {257, 136}}) {
    for (const DType from : {DType::kFloat32, DType::kBFloat16}) {
      for (const DType to : {DType::kE4m3, DType::kE5m2}) {
        SCOPED_TRACE(fmt::format("[{}, {}] {} to {}", rows, cols, name(from), name(to)));
        const auto n = static_cast<std::size_t>(rows * cols);
        const auto x = random(rows * cols, 3.0f, from);
        const Rig r = rig();
        const DeviceArray in = r.upload({rows, cols}, x, from), scale = r.poisoned({}),
                          sample = r.scalar(0.0f);
        const DeviceArray codes = r.poisoned({rows, cols}, to), turned = r.poisoned({cols, rows}, to);
        const DeviceArray alone = r.poisoned({cols, rows}, to);
        r.run(QuantizeArgs{
            .x = in, .out = {.codes = codes, .turned = turned, .inverse_scale = scale, .amax = sample}});
        r.run(QuantizeArgs{.x = in, .out = {.turned = alone, .inverse_scale = scale}});
        const Codes expected = quantized(rig(), x, from, to);
        const auto in_rows = bytes_of(r, codes, n), across = bytes_of(r, turned, n);
        EXPECT_EQ(in_rows, expected.codes);
        EXPECT_EQ(bytes_of(r, alone, n), across);
        EXPECT_EQ(scale.download()[0], expected.inverse_scale);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < cols; ++j) {
            ASSERT_EQ(across[static_cast<std::size_t>(j * rows + i)],
                      in_rows[static_cast<std::size_t>(i * cols + j)])
                << i << ", " << j;
          }
        }
        float amax = 0.0f;
        for (const float value : x) amax = std::max(amax, std::fabs(value));
        EXPECT_EQ(sample.download()[0], amax);
      }
    }
  }
}

TEST_P(Fp8Test, QuantizeRefusesOtherFormats) {
  const Rig r = rig();
  const DeviceArray in = r.upload({2}, std::vector<float>{1, 2}), out = r.poisoned({2}),
                    scale = r.poisoned({});
  EXPECT_THROW(r.run(QuantizeArgs{.x = in, .out = {.codes = out, .inverse_scale = scale}}), Error);
}

TEST_P(Fp8Test, MovesHistoriesByTheLargestOfAllSamples) {
  constexpr std::int64_t kTensors = 3, kRows = 5, kColumns = (kTensors + 1) * kFp8HistoryElems;
  auto samples = random(kRows * kColumns);
  for (float& value : samples) value = std::fabs(value);
  std::vector<float> histories(kTensors * kFp8HistoryElems);
  for (std::size_t i = 0; i < histories.size(); ++i) histories[i] = 1e-6f * static_cast<float>(i % 16 + 1);
  histories[2 * kFp8HistoryElems + 4] = 1e6f;  // the third is not clipped
  for (const int skip : {0, 1}) {
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray from = rig.upload({kRows, kColumns}, samples), flag = rig.scalar(skip);
      const DeviceArray moved = rig.upload({kTensors, kFp8HistoryElems}, histories), count = rig.scalar(7);
      rig.run(MoveMaximaArgs{.histories = moved,
                             .samples = from,
                             .first_column = kFp8HistoryElems,
                             .num_clipped = count,
                             .skip = flag});
      return {moved.download(), {static_cast<float>(count.download_ints()[0])}};
    });
    if (skip == 1) {
      EXPECT_TRUE(same_bits(out[0], histories));
      EXPECT_EQ(out[1][0], 7);
      continue;
    }
    EXPECT_EQ(out[1][0], 7 + 2);
    for (std::size_t t = 0; t < kTensors; ++t) {
      float amax = 0.0f;
      for (std::size_t row = 0; row < kRows; ++row) {
        amax = std::max(amax, samples[row * kColumns + (t + 1) * kFp8HistoryElems]);
      }
      const float* before = histories.data() + t * kFp8HistoryElems;
      const float* after = out[0].data() + t * kFp8HistoryElems;
      EXPECT_EQ(after[0], amax);
      for (int i = 1; i < kFp8History; ++i) EXPECT_EQ(after[i], before[i - 1]);
      EXPECT_EQ(after[kFp8History], *std::max_element(before, before + kFp8History));
    }
  }
}

// Hopper's tensor cores keep about 14 bits of a sum of fp8 products before it is added in fp32 (DeepSeek-AI
// 2024, arXiv 2412.19437, section 3.3.2), so each sum may be off by 2^-13. An H100 showed 2^-14.8 for 32
// products and 2^-13.6 for 160.
constexpr double kFp8CoreTolerance = 0x1p-13;

// A product of codes is the product of the decoded numbers, with every epilogue.
TEST_P(Fp8Test, MatmulIsThatOfTheDecodedNumbers) {
  struct Case {
    DType a, d;
    std::int64_t m, n, k;
    GradientMode mode = GradientMode::kOverwrite;
    bool epilogue = false;
  };
  const double sums = GetParam() == DeviceType::kCuda ? kFp8CoreTolerance : kForwardTolerance;
  for (const Case& c :
       {Case{DType::kE4m3, DType::kBFloat16, 32, 48, 64},
        Case{DType::kE4m3, DType::kBFloat16, 16, 80, 32, {}, true},
        Case{DType::kE5m2, DType::kBFloat16, 32, 64, 48}, Case{DType::kE5m2, DType::kFloat32, 48, 64, 32},
        Case{DType::kE5m2, DType::kFloat32, 48, 16, 160, GradientMode::kAccumulate}}) {
    const auto a = random(c.m * c.k, 0.3f), b = random(c.n * c.k, 5.0f);
    const auto start = random(c.m * c.n, 1.0f, c.d), bias = random(c.n, 1.0f, c.d),
               residual = random(c.m * c.n, 1.0f, c.d);
    std::vector<double> numbers_a, numbers_b;
    const Shape a_shape{c.m, c.k}, b_shape{c.n, c.k};
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const auto operand = [&](const Shape& shape, const std::vector<float>& x, DType dtype,
                               const DeviceArray& codes, const DeviceArray& scale) {
        rig.run(QuantizeArgs{.x = rig.upload(shape, x), .out = {.codes = codes, .inverse_scale = scale}});
        const auto bytes = bytes_of(rig, codes, x.size());
        std::vector<double> numbers;
        for (const std::uint8_t code : bytes) {
          numbers.push_back(float_of_fp8(code, fp8_format(dtype)) * static_cast<double>(scale.download()[0]));
        }
        return numbers;
      };
      const DeviceArray a8 = rig.poisoned(a_shape, c.a), b8 = rig.poisoned(b_shape, DType::kE4m3);
      const DeviceArray a_scale = rig.poisoned({}), b_scale = rig.poisoned({});
      const auto na = operand(a_shape, a, c.a, a8, a_scale),
                 nb = operand(b_shape, b, DType::kE4m3, b8, b_scale);
      if (rig.exec().device.type != DeviceType::kMeta) numbers_a = na, numbers_b = nb;
      const DeviceArray d = rig.upload({c.m, c.n}, start, c.d), biases = rig.upload({c.n}, bias, c.d);
      const DeviceArray added = rig.upload({c.m, c.n}, residual, c.d), pre = rig.poisoned({c.m, c.n}, c.d);
      MatmulArgs args{.a = a8,
                      .b = b8,
                      .d = d,
                      .transpose_b = Transpose::kYes,
                      .mode = c.mode,
                      .a_inverse_scale = a_scale,
                      .b_inverse_scale = b_scale};
      if (c.epilogue) {
        args.bias = biases, args.residual = added, args.pre_activation = pre;
        args.activation = Activation::kGeluTanh;
      }
      rig.run(args);
      if (c.epilogue) return {d.download(), pre.download()};
      return {d.download()};
    });
    std::vector<double> product(static_cast<std::size_t>(c.m * c.n));
    double terms = 0;
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < c.k; ++k) {
          sum += numbers_a[static_cast<std::size_t>(i * c.k + k)] *
                 numbers_b[static_cast<std::size_t>(j * c.k + k)];
        }
        product[static_cast<std::size_t>(i * c.n + j)] = sum;
        terms = std::max(terms, std::fabs(sum));
      }
    }
    if (c.epilogue) {
      std::vector<double> gelu(product.size());
      for (std::size_t i = 0; i < product.size(); ++i) {
        const double x = product[i] += bias[i % static_cast<std::size_t>(c.n)];
        gelu[i] = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) + residual[i];
      }
      expect_close(out[1], product, tolerance_of(c.d, sums), "pre_activation");
      product = gelu;
    }
    expect_close(out[0], accumulated(product, start, c.mode), tolerance_of(c.d, sums), "d");
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(Fp8Test);

}  // namespace
}  // namespace trireme::testing
