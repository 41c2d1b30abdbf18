// The accuracy of the approximations, compared with double.
#define TRIREME_ISA test_isa
#include "kernels/cpu/isa/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme::cpu::test_isa {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Error in units in the last place of the float nearest to `exact`.
double ulps(float actual, double exact) {
  const auto nearest = static_cast<float>(exact);
  const double ulp = std::nextafter(std::fabs(nearest), kInfinity) - std::fabs(nearest);
  return std::fabs(actual - exact) / ulp;
}

TEST(VectorMathTest, ExpIsWithinTwoUlps) {
  double worst = 0;
  for (float x = -87.3f; x < 88.7f; x += 1.234e-4f)
    worst = std::max(worst, ulps(exp_approx(x), std::exp(double{x})));
  EXPECT_LT(worst, 2.0);
}

TEST(VectorMathTest, ExpAtItsEnds) {
  EXPECT_EQ(exp_approx(0.0f), 1.0f);
  EXPECT_EQ(exp_approx(kInfinity), kInfinity);
  EXPECT_EQ(exp_approx(89.0f), kInfinity);
  EXPECT_LT(ulps(exp_approx(88.72f), std::exp(88.72)), 200.0);
  EXPECT_TRUE(std::isfinite(exp_approx(88.72f)));
  EXPECT_EQ(exp_approx(-kInfinity), 0.0f);
  EXPECT_EQ(exp_approx(-1e30f), 0.0f);
  EXPECT_NEAR(exp_approx(-95.0f), std::exp(-95.0), 2e-45);  // a denormal
  EXPECT_TRUE(std::isnan(exp_approx(std::numeric_limits<float>::quiet_NaN())));
}

float log_of(float x) {
  return log_approx(Vector{} + x)[0];
}

TEST(VectorMathTest, LogIsWithinTwoUlps) {
  double worst = 0;
  for (float x = 1e-37f; x < 3e38f; x *= 1.0001f)
    worst = std::max(worst, ulps(log_of(x), std::log(double{x})));
  for (float x = 0.5f; x < 2.0f; x += 1.234e-6f) {
    if (x != 1.0f) worst = std::max(worst, ulps(log_of(x), std::log(double{x})));
  }
  EXPECT_LT(worst, 2.0);
}

TEST(VectorMathTest, LogAtItsEnds) {
  EXPECT_EQ(log_of(1.0f), 0.0f);
  EXPECT_EQ(log_of(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorMathTest, ExpBelowHasTheBitsOfExp) {
  for (float x = -150.0f; x < 88.0f; x += 1.7e-3f) EXPECT_EQ(exp_below(Vector{} + x)[0], exp_approx(x)) << x;
  EXPECT_EQ(exp_below(Vector{} - kInfinity)[0], 0.0f);
  EXPECT_TRUE(std::isnan(exp_below(Vector{} + std::numeric_limits<float>::quiet_NaN())[0]));
}

}  // namespace
}  // namespace trireme::cpu::test_isa
