// add, scale, column_sum, activation_fwd, activation_bwd and the transfers.
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr std::int64_t kSizes[] = {1, 3, 127, 1000, 100003};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ElementwiseTest : public KernelTest {};

TEST_P(ElementwiseTest, Add) {
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t n : kSizes) {
      auto a = random(n, 1.0f, dtype), b = random(n, 1.0f, dtype);
      a[0] = kInfinity;
      for (const int where : {0, 1, 2}) {
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray x = rig.upload({n}, a, dtype), y = rig.upload({n}, b, dtype);
          const DeviceArray apart = rig.poisoned({n}, dtype);
          const DeviceArray& to = where == 0 ? apart : where == 1 ? x : y;
          rig.run(AddArgs{.a = x, .b = y, .out = to});
          return {to.download()};
        });
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(out[0][i], rounded(a[i] + b[i], dtype)) << name(dtype) << " " << n << " " << i;
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, Mul) {
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t n : kSizes) {
      auto a = random(n, 1.0f, dtype), b = random(n, 1.0f, dtype);
      a[0] = kInfinity;
      for (const int where : {0, 1, 2}) {
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray x = rig.upload({n}, a, dtype), y = rig.upload({n}, b, dtype);
          const DeviceArray apart = rig.poisoned({n}, dtype);
          const DeviceArray& to = where == 0 ? apart : where == 1 ? x : y;
          rig.run(MulArgs{.a = x, .b = y, .out = to});
          return {to.download()};
        });
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(out[0][i], rounded(a[i] * b[i], dtype)) << name(dtype) << " " << n << " " << i;
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, Scale) {
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t n : kSizes) {
      auto x = random(n, 1.0f, dtype);
      x[n / 2] = kNan;
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray y = rig.upload({n}, x, dtype);
        const DeviceArray z = rig.upload({n}, x, dtype);
        rig.run(ScaleArgs{.x = y, .factor = rig.scalar(-2.3f)});
        rig.run(ScaleArgs{.x = z, .constant = -2.3f});
        EXPECT_TRUE(same_bits(y.download(), z.download()));
        return {y.download()};
      });
      for (std::int64_t i = 0; i < n; ++i) {
        if (i == n / 2) {
          ASSERT_TRUE(std::isnan(out[0][i]));
        } else {
          ASSERT_EQ(out[0][i], rounded(x[i] * -2.3f, dtype)) << name(dtype) << " " << n << " " << i;
        }
      }
    }
  }
}

// fp16 ends at 65504, and values that round to 65536 become infinite. bf16 has the range of fp32.
TEST_P(ElementwiseTest, OverflowBecomesInfinite) {
  const std::vector<float> x = {65504, -65504, 40000, 65472, 1, 32768};
  const std::vector<float> y = {8, -65504, 40000, 32, kInfinity, 32736};
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Rig r = rig();
    const DeviceArray out = r.poisoned({6}, dtype);
    r.run(AddArgs{.a = r.upload({6}, x, dtype), .b = r.upload({6}, y, dtype), .out = out});
    const auto sum = out.download();
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(sum[i], rounded(rounded(x[i], dtype) + rounded(y[i], dtype), dtype))
          << name(dtype) << " " << i;
    }
    EXPECT_EQ(std::isinf(sum[2]), dtype == DType::kFloat16);
    EXPECT_EQ(std::isinf(sum[1]), dtype == DType::kFloat16);
    EXPECT_TRUE(std::isfinite(sum[0]));
  }
}

TEST_P(ElementwiseTest, ColumnSum) {
  for (const Shape& shape :
       {Shape{1, 1}, Shape{3, 127}, Shape{127, 1000}, Shape{1000, 3}, Shape{65, 257}, Shape{5, 5003}}) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} {}", shape.to_string(), name(dtype)));
      const std::int64_t rows = shape[0], cols = shape[1];
      const auto x = random(rows * cols, 1.0f, dtype), start = random(cols);
      for (const GradientMode mode : {GradientMode::kOverwrite, GradientMode::kAccumulate}) {
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray sum =
              mode == GradientMode::kAccumulate ? rig.upload({cols}, start) : rig.poisoned({cols});
          rig.run(ColumnSumArgs{.x = rig.upload(shape, x, dtype), .out = sum, .mode = mode});
          return {sum.download()};
        });
        std::vector<double> expected(cols, 0.0);
        for (std::int64_t i = 0; i < rows * cols; ++i) expected[i % cols] += x[i];
        const double terms = 0.5 * static_cast<double>(rows);
        expect_close(out[0], accumulated(expected, start, mode),
                     Tolerance(kForwardTolerance).for_terms(terms, expected.size()), "column sum");
      }
    }
  }
  const Rig r = rig();
  r.run(ColumnSumArgs{.x = r.poisoned({4, 4}), .out = {}, .mode = GradientMode::kIgnore});
}

// More chunks than a grid's y and z dimensions allow.
TEST_P(ElementwiseTest, ColumnSumOfVeryManyRows) {
  constexpr std::int64_t kRows = std::int64_t{65536} * 128 + 3;
  const Rig r = rig();
  const DeviceArray x = r.upload({kRows, 1}, std::vector<float>(kRows, 0.25f), DType::kBFloat16);
  const DeviceArray out = r.poisoned({1});
  r.run(ColumnSumArgs{.x = x, .out = out});
  EXPECT_EQ(out.download()[0], 0.25f * kRows);
}

double gelu_tanh_derivative(double x) {
  const double a = std::sqrt(2 / M_PI), t = std::tanh(a * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
}

double gelu_derivative(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

double derivative(Activation activation, double x) {
  if (activation == Activation::kNone) return 1.0;
  if (activation == Activation::kTanh) return 1.0 - std::tanh(x) * std::tanh(x);
  const double sigmoid = 1.0 / (1.0 + std::exp(-x));
  if (activation == Activation::kSilu) return sigmoid * (1.0 + x * (1.0 - sigmoid));
  return activation == Activation::kGelu ? gelu_derivative(x) : gelu_tanh_derivative(x);
}

double value(Activation activation, double x) {
  if (activation == Activation::kNone) return x;
  if (activation == Activation::kTanh) return std::tanh(x);
  if (activation == Activation::kSilu) return x / (1.0 + std::exp(-x));
  if (activation == Activation::kGelu) return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST_P(ElementwiseTest, ActivationFwd) {
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t n : kSizes) {
      auto x = random(n, 3.0f, dtype);
      x[n / 2] = kNan;
      for (const bool in_place : {false, true}) {
        for (const Activation activation : {Activation::kNone, Activation::kGeluTanh, Activation::kGelu,
                                            Activation::kTanh, Activation::kSilu}) {
          SCOPED_TRACE(fmt::format("{} {} in place {} activation {}", name(dtype), n, in_place,
                                   static_cast<int>(activation)));
          const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
            const DeviceArray dev_x = rig.upload({n}, x, dtype), apart = rig.poisoned({n}, dtype);
            const DeviceArray& y = in_place ? dev_x : apart;
            rig.run(ActivationFwdArgs{.x = dev_x, .y = y, .activation = activation});
            return {y.download()};
          });
          std::vector<double> expected(n);
          std::vector<float> actual = out[0];
          for (std::int64_t i = 0; i < n; ++i) expected[i] = value(activation, x[i]);
          EXPECT_TRUE(std::isnan(actual[n / 2]));
          actual[n / 2] = 0, expected[n / 2] = 0;
          expect_close(actual, expected,
                       tolerance_of(dtype, kForwardTolerance).for_terms(1.0, expected.size()), "y");
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, ActivationBwd) {
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t n : kSizes) {
      const auto dy = random(n, 1.0f, dtype), pre = random(n, 6.0f, dtype);
      for (const bool in_place : {false, true}) {
        for (const Activation activation : {Activation::kNone, Activation::kGeluTanh, Activation::kGelu,
                                            Activation::kTanh, Activation::kSilu}) {
          SCOPED_TRACE(fmt::format("{} {} in place {} activation {}", name(dtype), n, in_place,
                                   static_cast<int>(activation)));
          const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
            const DeviceArray dev_dy = rig.upload({n}, dy, dtype), apart = rig.poisoned({n}, dtype);
            const DeviceArray dev_pre = rig.upload({n}, pre, dtype);
            const DeviceArray& dx = in_place ? dev_dy : apart;
            rig.run(ActivationBwdArgs{.dy = dev_dy, .pre = dev_pre, .dx = dx, .activation = activation});
            return {dx.download()};
          });
          std::vector<double> expected(n);
          for (std::int64_t i = 0; i < n; ++i) {
            expected[i] = dy[i] * derivative(activation, pre[i]);
          }
          // GELU's derivative has a zero near -0.75.
          expect_close(out[0], expected,
                       tolerance_of(dtype, kBackwardTolerance).for_terms(1.0, expected.size()), "dx");
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, ActivationBwdNanAndInfinity) {
  const std::vector<float> dy = {1, 1, kNan, kInfinity, 1, 1}, pre = {kNan, kInfinity, 1, 1, 100, -100};
  const Rig r = rig();
  const DeviceArray dx = r.poisoned({6});
  r.run(ActivationBwdArgs{.dy = r.upload({6}, dy), .pre = r.upload({6}, pre), .dx = dx});
  const auto out = dx.download();
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_FALSE(std::isfinite(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_TRUE(std::isinf(out[3]));
  EXPECT_EQ(out[4], 1.0f);
  EXPECT_EQ(out[5], 0.0f);
}

TEST_P(ElementwiseTest, Transfers) {
  for (const std::int64_t n : {1, 127, 600'001, 6'000'001}) {  // the last in several pieces on cards
    const auto values = random(n);
    const Rig r = rig();
    const DeviceArray a = r.upload({n}, values), b = r.poisoned({n});
    r->copy(r.exec(), b, a);
    EXPECT_TRUE(same_bits(b.download(), values));
    r->fill_zero(r.exec(), b);
    r->synchronize(r.exec());
    EXPECT_TRUE(same_bits(b.download(), std::vector<float>(values.size(), 0.0f)));
    EXPECT_TRUE(same_bits(a.download(), values));
  }
}

TEST_P(ElementwiseTest, EmptyTensorsAreFine) {
  const Rig r = rig();
  const DeviceArray empty = r.poisoned({0}), rows = r.poisoned({0, 5});
  r.run(AddArgs{.a = empty, .b = empty, .out = empty});
  r->fill_zero(r.exec(), empty);
  r.run(MatmulArgs{.a = rows, .b = r.poisoned({5, 3}), .d = r.poisoned({0, 3})});
}

TRIREME_INSTANTIATE_KERNEL_TEST(ElementwiseTest);

}  // namespace
}  // namespace trireme::testing
