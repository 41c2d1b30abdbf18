// Activations on every instruction set of this machine, beside double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/numerics.h"
#include "tests/kernels/cpu/numerics_data.h"

namespace trireme::cpu {
namespace {

double exact_sigmoid_of_gelu(double x) {
  return 1 / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Not 1 + tanh, which loses all digits for negative x; the approximation keeps them.
double exact_gelu(double x) {
  return x * exact_sigmoid_of_gelu(x);
}

double exact_gelu_derivative(double x) {
  const double s = exact_sigmoid_of_gelu(x);
  return s + x * s * (1 - s) * 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

TEST(ActivationNumerics, GeluKeepsRelativeAccuracy) {
  Floats x;
  for (float value = -10.0f; value < 20.0f; value += 1e-3f) x.push_back(value);
  const auto n = static_cast<std::int64_t>(x.size());
  const Floats dy(x.size(), 1.0f);
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    Floats y = x, dx(x.size());
    (*table)->activation->epilogue(
        {.d = y.data(), .rows = 1, .cols = n, .pitch = n, .activation = Activation::kGeluTanh});
    (*table)->activation->gelu_tanh_bwd(dy.data(), x.data(), dx.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Allows for the round-off of the exponent: |2 u| grows with x^3.
      const double relative = x[i] < -5.0f ? 2e-5 : 2e-6;
      EXPECT_NEAR(y[i], exact_gelu(x[i]), relative * std::fabs(exact_gelu(x[i]))) << x[i];
      EXPECT_NEAR(dx[i], exact_gelu_derivative(x[i]), 5e-7) << x[i];
    }
  }
}

TEST(ActivationNumerics, GeluAtItsEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats x{100.0f, -100.0f, 1e30f, -1e30f, 3e38f, -3e38f, 0.0f};
  const Floats expected{100.0f, 0.0f, 1e30f, 0.0f, 3e38f, 0.0f, 0.0f};
  const Floats slopes{1.0f, 0.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.5f}, dy(x.size(), 1.0f);
  const auto n = static_cast<std::int64_t>(x.size());
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    const ActivationNumerics& activation = *(*table)->activation;
    Floats y = x, dx(x.size());
    activation.epilogue(
        {.d = y.data(), .rows = 1, .cols = n, .pitch = n, .activation = Activation::kGeluTanh});
    activation.gelu_tanh_bwd(dy.data(), x.data(), dx.data(), n);
    EXPECT_EQ(y, expected);
    EXPECT_EQ(dx, slopes);
    Floats beyond{kInfinity, std::numeric_limits<float>::quiet_NaN()};
    activation.epilogue(
        {.d = beyond.data(), .rows = 1, .cols = 2, .pitch = 2, .activation = Activation::kGeluTanh});
    EXPECT_EQ(beyond[0], kInfinity);
    EXPECT_TRUE(std::isnan(beyond[1]));
  }
}

TEST(ActivationNumerics, TanhKeepsRelativeAccuracy) {
  Floats x{1e-30f, -1e-6f, 100.0f, -1e30f};
  for (float value = -12.0f; value < 12.0f; value += 1e-3f) x.push_back(value);
  const auto n = static_cast<std::int64_t>(x.size());
  const Floats dy(x.size(), 1.0f);
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    Floats y = x, dx(x.size());
    (*table)->activation->epilogue(
        {.d = y.data(), .rows = 1, .cols = n, .pitch = n, .activation = Activation::kTanh});
    (*table)->activation->tanh_bwd(dy.data(), x.data(), dx.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::tanh(double{x[i]}), cosh = std::cosh(std::min(50.0, std::fabs(double{x[i]})));
      EXPECT_NEAR(y[i], exact, 3e-7 * std::fabs(exact)) << x[i];
      // Denormal results may be 0.
      EXPECT_NEAR(dx[i], 1 / (cosh * cosh), 2e-6 / (cosh * cosh) + 1.2e-38) << x[i];
    }
  }
}

TEST(ActivationNumerics, SiluKeepsRelativeAccuracy) {
  Floats x{1e-30f, -1e-6f, 100.0f, -100.0f, 3e38f, -3e38f, 0.0f};
  for (float value = -80.0f; value < 20.0f; value += 3e-3f) x.push_back(value);
  const auto n = static_cast<std::int64_t>(x.size());
  const Floats dy(x.size(), 1.0f);
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    Floats y = x, dx(x.size());
    (*table)->activation->epilogue(
        {.d = y.data(), .rows = 1, .cols = n, .pitch = n, .activation = Activation::kSilu});
    (*table)->activation->silu_bwd(dy.data(), x.data(), dx.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double sigmoid = 1.0 / (1.0 + std::exp(-double{x[i]})), exact = x[i] * sigmoid;
      EXPECT_NEAR(y[i], exact, 6e-7 * std::fabs(exact) + 1.2e-38) << x[i];
      EXPECT_NEAR(dx[i], sigmoid * (1.0 + x[i] * (1.0 - sigmoid)), 5e-7) << x[i];
    }
    Floats beyond{std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    (*table)->activation->epilogue(
        {.d = beyond.data(), .rows = 1, .cols = 2, .pitch = 2, .activation = Activation::kSilu});
    EXPECT_TRUE(std::isinf(beyond[0]) && std::isnan(beyond[1]));
  }
}

TEST(ActivationNumerics, ExactGelu) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Floats x;
  for (float value = -13.0f; value < 20.0f; value += 1e-3f) x.push_back(value);
  const std::size_t num_values = x.size();
  for (const float end : {100.0f, -100.0f, 3e38f, -3e38f, 0.0f, -0.0f}) x.push_back(end);
  const auto n = static_cast<std::int64_t>(x.size());
  const Floats dy(x.size(), 1.0f), slopes{1.0f, 0.0f, 1.0f, 0.0f, 0.5f, 0.5f};
  const auto run = [](const Numerics& table, Floats& y, std::int64_t cols) {
    table.activation->epilogue(
        {.d = y.data(), .rows = 1, .cols = cols, .pitch = cols, .activation = Activation::kGelu});
  };
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    Floats y = x, dx(x.size());
    run(**table, y, n);
    (*table)->activation->gelu_bwd(dy.data(), x.data(), dx.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double below = 0.5 * std::erfc(-static_cast<double>(x[i]) / std::sqrt(2.0));
      // Allows for the round-off of the exponent, x^2 / 2.
      const double relative = x[i] < -5.0f ? 1e-5 : 2e-6;
      ASSERT_NEAR(y[i], x[i] * below, relative * std::fabs(x[i] * below)) << x[i];
      const double bell = std::exp(-0.5 * static_cast<double>(x[i]) * x[i]) / std::sqrt(2 * M_PI);
      ASSERT_NEAR(dx[i], below + x[i] * bell, 5e-7) << x[i];
      if (i >= num_values) {
        EXPECT_EQ(dx[i], slopes[i - num_values]) << x[i];
      }
    }
    Floats beyond{kInfinity, std::numeric_limits<float>::quiet_NaN()};
    run(**table, beyond, 2);
    EXPECT_EQ(beyond[0], kInfinity);
    EXPECT_TRUE(std::isnan(beyond[1]));
    // A single value gives the same bits as in a vector.
    for (std::size_t i = 0; i < x.size(); i += 997) {
      Floats alone{x[i]};
      run(**table, alone, 1);
      EXPECT_EQ(bits(alone)[0], bits({y[i]})[0]) << x[i];
    }
  }
}

// The tile's columns depend on how a product is split, so partial vectors must give the same bits.
TEST(ActivationNumerics, GeluIsTheSameInVectorsAndAlone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::int64_t kCols = 131;
  Floats x = random(kCols, 12.0f);
  const Floats ends{0.0f,  -0.0f,  100.0f, -100.0f,   5.2f,       -13.1f,
                    1e30f, -1e30f, -10.3f, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  std::copy(ends.begin(), ends.end(), x.begin());
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    Floats row = x, alone = x;
    (*n)->activation->epilogue({.d = row.data(),
                                .rows = 1,
                                .cols = kCols,
                                .pitch = kCols,
                                .bias = nullptr,
                                .activation = Activation::kGeluTanh});
    for (float& value : alone) {
      (*n)->activation->epilogue({.d = &value,
                                  .rows = 1,
                                  .cols = 1,
                                  .pitch = 1,
                                  .bias = nullptr,
                                  .activation = Activation::kGeluTanh});
    }
    EXPECT_EQ(bits(row), bits(alone)) << (*n)->isa;
    // Rows that use all group sizes of vectors, and partial vectors.
    const Floats dy = random(kCols, 1.0f);
    for (const std::int64_t cols : {1, 15, 16, 31, 32, 64, 113, 127, 128}) {
      Floats part(x.begin(), x.begin() + cols), slope(x), slope_of_part(part);
      (*n)->activation->epilogue({.d = part.data(),
                                  .rows = 1,
                                  .cols = cols,
                                  .pitch = cols,
                                  .bias = nullptr,
                                  .activation = Activation::kGeluTanh});
      EXPECT_EQ(bits(part), bits(Floats(alone.begin(), alone.begin() + cols))) << (*n)->isa << " " << cols;
      (*n)->activation->gelu_tanh_bwd(dy.data(), x.data(), slope.data(), kCols);
      (*n)->activation->gelu_tanh_bwd(dy.data(), x.data(), slope_of_part.data(), cols);
      slope.resize(static_cast<std::size_t>(cols));
      EXPECT_EQ(bits(slope_of_part), bits(slope)) << (*n)->isa << " " << cols;
    }
  }
}

}  // namespace
}  // namespace trireme::cpu
