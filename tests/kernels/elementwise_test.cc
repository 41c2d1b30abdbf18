// add, scale, column_sum, activation_bwd and the transfers.
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
  for (const std::int64_t n : kSizes) {
    auto a = random(n), b = random(n);
    a[0] = kInfinity;
    for (const int where : {0, 1, 2}) {
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray x = rig.upload({n}, a), y = rig.upload({n}, b), apart = rig.poisoned({n});
        const DeviceArray& to = where == 0 ? apart : where == 1 ? x : y;
        rig->add(rig.exec(), {.a = x, .b = y, .out = to});
        return {to.download()};
      });
      for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(out[0][i], a[i] + b[i]) << n << " " << i;
    }
  }
}

TEST_P(ElementwiseTest, Scale) {
  for (const std::int64_t n : kSizes) {
    auto x = random(n);
    x[n / 2] = kNan;
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray y = rig.upload({n}, x);
      rig->scale(rig.exec(), {.x = y, .factor = rig.scalar(-2.5f)});
      return {y.download()};
    });
    for (std::int64_t i = 0; i < n; ++i) {
      if (i == n / 2) {
        ASSERT_TRUE(std::isnan(out[0][i]));
      } else {
        ASSERT_EQ(out[0][i], x[i] * -2.5f) << n << " " << i;
      }
    }
  }
}

TEST_P(ElementwiseTest, ColumnSum) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 127}, Shape{127, 1000}, Shape{1000, 3}, Shape{65, 257}}) {
    const std::int64_t rows = shape[0], cols = shape[1];
    const auto x = random(rows * cols), start = random(cols);
    for (const GradientMode mode : {GradientMode::kOverwrite, GradientMode::kAccumulate}) {
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray sum =
            mode == GradientMode::kAccumulate ? rig.upload({cols}, start) : rig.poisoned({cols});
        rig->column_sum(rig.exec(), {.x = rig.upload(shape, x), .out = sum, .mode = mode});
        return {sum.download()};
      });
      std::vector<double> expected(cols, 0.0);
      for (std::int64_t i = 0; i < rows * cols; ++i) expected[i % cols] += x[i];
      expect_close(out[0], accumulated(expected, start, mode), kForwardTolerance, "column sum");
    }
  }
  const Rig r = rig();
  r->column_sum(r.exec(), {.x = r.poisoned({4, 4}), .out = {}, .mode = GradientMode::kIgnore});
}

double gelu_derivative(double x) {
  const double a = std::sqrt(2 / M_PI), t = std::tanh(a * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
}

TEST_P(ElementwiseTest, ActivationBwd) {
  for (const std::int64_t n : kSizes) {
    const auto dy = random(n), pre = random(n, 6.0f);
    for (const bool in_place : {false, true}) {
      for (const Activation activation : {Activation::kNone, Activation::kGeluTanh}) {
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray dev_dy = rig.upload({n}, dy), apart = rig.poisoned({n});
          const DeviceArray& dx = in_place ? dev_dy : apart;
          rig->activation_bwd(
              rig.exec(), {.dy = dev_dy, .pre = rig.upload({n}, pre), .dx = dx, .activation = activation});
          return {dx.download()};
        });
        std::vector<double> expected(n);
        for (std::int64_t i = 0; i < n; ++i) {
          expected[i] = dy[i] * (activation == Activation::kNone ? 1.0 : gelu_derivative(pre[i]));
        }
        expect_close(out[0], expected, kBackwardTolerance, "dx");
      }
    }
  }
}

TEST_P(ElementwiseTest, ActivationBwdNanAndInfinity) {
  const std::vector<float> dy = {1, 1, kNan, kInfinity, 1, 1}, pre = {kNan, kInfinity, 1, 1, 100, -100};
  const Rig r = rig();
  const DeviceArray dx = r.poisoned({6});
  r->activation_bwd(r.exec(), {.dy = r.upload({6}, dy), .pre = r.upload({6}, pre), .dx = dx});
  const auto out = dx.download();
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_FALSE(std::isfinite(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_TRUE(std::isinf(out[3]));
  EXPECT_EQ(out[4], 1.0f);
  EXPECT_EQ(out[5], 0.0f);
}

TEST_P(ElementwiseTest, Transfers) {
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{127}, std::int64_t{600001}}) {
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
  r->add(r.exec(), {.a = empty, .b = empty, .out = empty});
  r->fill_zero(r.exec(), empty);
  r->matmul(r.exec(), {.a = rows, .b = r.poisoned({5, 3}), .d = r.poisoned({0, 3})});
}

TRIREME_INSTANTIATE_KERNEL_TEST(ElementwiseTest);

}  // namespace
}  // namespace trireme::testing
