#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr GradientMode kModes[] = {GradientMode::kOverwrite, GradientMode::kAccumulate,
                                   GradientMode::kIgnore};

struct Reference {
  std::vector<double> y, mean, rstd, dx, dgamma, dbeta;
};

/// An empty beta means RMS norm.
Reference reference(std::int64_t rows, std::int64_t cols, const std::vector<float>& x,
                    const std::vector<float>& gamma, const std::vector<float>& beta,
                    const std::vector<float>& dy) {
  const bool centered = !beta.empty();
  Reference r{.y = std::vector<double>(rows * cols),
              .mean = std::vector<double>(rows),
              .rstd = std::vector<double>(rows),
              .dx = std::vector<double>(rows * cols),
              .dgamma = std::vector<double>(cols),
              .dbeta = std::vector<double>(cols)};
  for (std::int64_t m = 0; m < rows; ++m) {
    double mean = 0, variance = 0, sum = 0, sum_xhat = 0;
    for (std::int64_t c = 0; centered && c < cols; ++c) mean += x[m * cols + c] / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      variance += (x[m * cols + c] - mean) * (x[m * cols + c] - mean) / static_cast<double>(cols);
    }
    const double rstd = 1 / std::sqrt(variance + kEpsilon);
    r.mean[m] = mean;
    r.rstd[m] = rstd;
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t i = m * cols + c;
      const double xhat = (x[i] - mean) * rstd, scaled = double{dy[i]} * gamma[c];
      r.y[i] = xhat * gamma[c] + (centered ? beta[c] : 0.0f);
      r.dgamma[c] += dy[i] * xhat;
      r.dbeta[c] += dy[i];
      if (centered) sum += scaled / static_cast<double>(cols);
      sum_xhat += scaled * xhat / static_cast<double>(cols);
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t i = m * cols + c;
      r.dx[i] = rstd * (double{dy[i]} * gamma[c] - sum - (x[i] - mean) * rstd * sum_xhat);
    }
  }
  return r;
}

enum class DxGoes { kApart, kOverDy, kOverDxAdd };

class LayerNormTest : public KernelTest {
 protected:
  struct Inputs {
    std::int64_t rows, cols;
    DType dtype;
    std::vector<float> x, gamma, beta, dy, dx_add, dgamma, dbeta;
    float gamma_center = 0.0f;
  };

  Inputs inputs(std::int64_t rows, std::int64_t cols, DType dtype = DType::kFloat32) {
    Inputs in{rows,
              cols,
              dtype,
              random(rows * cols),
              random(cols, 1.0f, dtype),
              random(cols, 1.0f, dtype),
              random(rows * cols, 1.0f, dtype),
              random(rows * cols, 1.0f, dtype),
              random(cols),
              random(cols)};
    for (float& value : in.x) value += 3.0f;  // a mean for which a one-pass variance loses digits
    in.x = rounded(std::move(in.x), dtype);
    return in;
  }

  // Returns y, mean, rstd, dx, dgamma, dbeta.
  static Outputs run(const Rig& rig, const Inputs& in, GradientMode dgamma_mode, GradientMode dbeta_mode,
                     bool with_dx_add, DxGoes where) {
    const Shape all{in.rows, in.cols}, row{in.cols};
    const DeviceArray x = rig.upload(all, in.x, in.dtype), gamma = rig.upload(row, in.gamma, in.dtype);
    const DeviceArray y = rig.poisoned(all, in.dtype), mean = rig.poisoned({in.rows}),
                      rstd = rig.poisoned({in.rows});
    const bool centered = !in.beta.empty();
    const DeviceArray beta = rig.upload(row, centered ? in.beta : in.gamma, in.dtype);
    LayerNormFwdArgs fwd{
        .x = x, .gamma = gamma, .y = y, .rstd = rstd, .epsilon = kEpsilon, .gamma_center = in.gamma_center};
    if (centered) {
      fwd.beta = beta;
      fwd.mean = mean;
    }
    rig.run(fwd);
    const DeviceArray dy = rig.upload(all, in.dy, in.dtype), dx_add = rig.upload(all, in.dx_add, in.dtype);
    const DeviceArray apart = rig.poisoned(all, in.dtype);
    const DeviceArray& dx = where == DxGoes::kApart ? apart : where == DxGoes::kOverDy ? dy : dx_add;
    const auto start = [&](GradientMode mode, const std::vector<float>& values) {
      return mode == GradientMode::kAccumulate ? rig.upload(row, values) : rig.poisoned(row);
    };
    const DeviceArray dgamma = start(dgamma_mode, in.dgamma), dbeta = start(dbeta_mode, in.dbeta);
    LayerNormBwdArgs args{.dy = dy, .x = x, .gamma = gamma, .rstd = rstd, .dx = dx};
    if (centered) args.mean = mean;
    if (with_dx_add) args.dx_add = dx_add;
    if (dgamma_mode != GradientMode::kIgnore) args.dgamma = dgamma;
    if (dbeta_mode != GradientMode::kIgnore) args.dbeta = dbeta;
    args.dgamma_mode = dgamma_mode;
    args.dbeta_mode = dbeta_mode;
    args.gamma_center = in.gamma_center;
    rig.run(args);
    return {y.download(),  mean.download(),   rstd.download(),
            dx.download(), dgamma.download(), dbeta.download()};
  }
};

TEST_P(LayerNormTest, MatchesReference) {
  for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{1, 3},
                                   {3, 127},
                                   {127, 1000},
                                   {65, 768},
                                   {1000, 33},
                                   {35, 1600},
                                   {3, 1999},
                                   {130, 2056}}) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("[{}, {}] {}", rows, cols, name(dtype)));
      const Inputs in = inputs(rows, cols, dtype);
      const Reference expected = reference(rows, cols, in.x, in.gamma, in.beta, in.dy);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
        return run(rig, in, GradientMode::kOverwrite, GradientMode::kOverwrite, false, DxGoes::kApart);
      });
      // Three values may be close to each other; the rest of x - mean then grows by rstd.
      const double rstd = expected.rstd[0], terms = 4 * rstd;
      const auto few = [n = out[0].size()](const Tolerance& t, double sum) { return t.for_terms(sum, n); };
      expect_close(out[0], expected.y, few(tolerance_of(dtype, kForwardTolerance), terms), "y");
      expect_close(out[1], expected.mean, kForwardTolerance, "mean");
      expect_close(out[2], expected.rstd, few(kForwardTolerance, terms * rstd), "rstd");
      expect_close(out[3], expected.dx, few(tolerance_of(dtype, kBackwardTolerance), terms * rstd), "dx");
      expect_close(out[4], expected.dgamma, few(kBackwardTolerance, terms), "dgamma");
      expect_close(out[5], expected.dbeta, kBackwardTolerance, "dbeta");
    }
  }
}

TEST_P(LayerNormTest, GradientModesAndResidualInPlace) {
  const Inputs in = inputs(130, 40);
  const Reference expected = reference(in.rows, in.cols, in.x, in.gamma, in.beta, in.dy);
  for (const GradientMode dgamma_mode : kModes) {
    for (const GradientMode dbeta_mode : kModes) {
      for (const DxGoes where : {DxGoes::kApart, DxGoes::kOverDy, DxGoes::kOverDxAdd}) {
        SCOPED_TRACE(fmt::format("modes {} {} dx {}", static_cast<int>(dgamma_mode),
                                 static_cast<int>(dbeta_mode), static_cast<int>(where)));
        const Outputs out = same_bits_for_all_threads(
            [&](const Rig& rig) { return run(rig, in, dgamma_mode, dbeta_mode, true, where); });
        expect_close(out[3], accumulated(expected.dx, in.dx_add, GradientMode::kAccumulate),
                     kBackwardTolerance, "dx");
        if (dgamma_mode != GradientMode::kIgnore) {
          expect_close(out[4], accumulated(expected.dgamma, in.dgamma, dgamma_mode), kBackwardTolerance,
                       "dgamma");
        }
        if (dbeta_mode != GradientMode::kIgnore) {
          expect_close(out[5], accumulated(expected.dbeta, in.dbeta, dbeta_mode), kBackwardTolerance,
                       "dbeta");
        }
      }
    }
  }
}

TEST_P(LayerNormTest, SixteenBitsWithTheResidualInPlace) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Inputs in = inputs(130, 41, dtype);
    const Reference expected = reference(in.rows, in.cols, in.x, in.gamma, in.beta, in.dy);
    for (const DxGoes where : {DxGoes::kApart, DxGoes::kOverDy, DxGoes::kOverDxAdd}) {
      SCOPED_TRACE(fmt::format("{} dx {}", name(dtype), static_cast<int>(where)));
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
        return run(rig, in, GradientMode::kAccumulate, GradientMode::kOverwrite, true, where);
      });
      expect_close(out[3], accumulated(expected.dx, in.dx_add, GradientMode::kAccumulate),
                   tolerance_of(dtype, kBackwardTolerance), "dx");
      expect_close(out[4], accumulated(expected.dgamma, in.dgamma, GradientMode::kAccumulate),
                   kBackwardTolerance, "dgamma");
    }
  }
}

// 1 + gamma / 1000 would be 1 in bf16, so the center is added in fp32.
TEST_P(LayerNormTest, AddsTheCenterOfGamma) {
  for (const std::int64_t cols : {41, 768, 1500}) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} columns, {}", cols, name(dtype)));
      Inputs in = inputs(20, cols, dtype);
      in.gamma = random(cols, 1e-3f, dtype);
      in.beta = random(cols, 1e-3f, dtype);
      in.gamma_center = 1.0f;
      std::vector<float> whole = in.gamma;
      for (float& value : whole) value += 1.0f;
      const Reference expected = reference(in.rows, in.cols, in.x, whole, in.beta, in.dy);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
        return run(rig, in, GradientMode::kOverwrite, GradientMode::kOverwrite, false, DxGoes::kApart);
      });
      expect_close(out[0], expected.y, tolerance_of(dtype, kForwardTolerance), "y");
      expect_close(out[3], expected.dx, tolerance_of(dtype, kBackwardTolerance), "dx");
      // In fp32, gives the same bits as with gamma plus center as gamma.
      if (dtype != DType::kFloat32) continue;
      in.gamma = whole;
      in.gamma_center = 0.0f;
      const Outputs plain =
          run(rig(), in, GradientMode::kOverwrite, GradientMode::kOverwrite, false, DxGoes::kApart);
      EXPECT_TRUE(same_bits(out[0], plain[0]) && same_bits(out[3], plain[3]));
    }
  }
}

TEST_P(LayerNormTest, NanAndInfinityPropagate) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Inputs in = inputs(20, 50);
    in.x[7 * 50 + 11] = bad;
    const Outputs out =
        run(rig(), in, GradientMode::kOverwrite, GradientMode::kOverwrite, false, DxGoes::kApart);
    for (std::int64_t i = 0; i < 20 * 50; ++i) {
      EXPECT_EQ(std::isnan(out[0][i]), i / 50 == 7) << i;
      EXPECT_EQ(std::isnan(out[3][i]), i / 50 == 7) << i;
    }
    for (const float value : out[4]) EXPECT_TRUE(std::isnan(value));
  }
}

// mean, beta and dbeta are undefined: RMS norm.
TEST_P(LayerNormTest, WithoutMeanAndBeta) {
  int combination = 0;
  for (const auto& [rows, cols] :
       {std::array<std::int64_t, 2>{1, 5}, {3, 127}, {127, 1000}, {65, 768}, {37, 1032}, {1000, 33}}) {
    for (const DType dtype : kFloatTypes) {
      for (const GradientMode mode : kModes) {
        for (const DxGoes where : {DxGoes::kApart, DxGoes::kOverDy, DxGoes::kOverDxAdd}) {
          // Runs only every fourth combination of large shapes.
          if (rows * cols > 10'000 && combination++ % 4 != 0) continue;
          SCOPED_TRACE(fmt::format("[{}, {}] {} mode {} dx {}", rows, cols, name(dtype),
                                   static_cast<int>(mode), static_cast<int>(where)));
          Inputs in = inputs(rows, cols, dtype);
          in.beta.clear();
          in.gamma_center = 1.0f;
          std::vector<float> whole = in.gamma;
          for (float& value : whole) value += 1.0f;
          const Reference expected = reference(rows, cols, in.x, whole, {}, in.dy);
          const Outputs out = same_bits_for_all_threads(
              [&](const Rig& rig) { return run(rig, in, mode, GradientMode::kIgnore, true, where); });
          expect_close(out[0], expected.y, tolerance_of(dtype, kForwardTolerance), "y");
          expect_close(out[2], expected.rstd, kForwardTolerance, "rstd");
          expect_close(out[3], accumulated(expected.dx, in.dx_add, GradientMode::kAccumulate),
                       tolerance_of(dtype, kBackwardTolerance), "dx");
          if (mode == GradientMode::kIgnore) continue;
          expect_close(out[4], accumulated(expected.dgamma, in.dgamma, mode), kBackwardTolerance, "dgamma");
        }
      }
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(LayerNormTest);

}  // namespace
}  // namespace trireme::testing
