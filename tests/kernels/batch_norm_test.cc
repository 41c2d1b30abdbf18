#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr double kEpsilon = 1e-5f;

struct Case {
  std::int64_t rows, cols;
  bool residual = false;
  Rectify rectify = Rectify::kNo;
};

struct Inputs {
  std::vector<float> x, gamma, beta, residual, dy;
};

double root_mean_square(const std::vector<double>& values) {
  double squares = 0.0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

struct Reference {
  explicit Reference(const Case& c, const Inputs& in)
      : sums(in.x.size()),
        y(in.x.size()),
        dx(in.x.size()),
        dresidual(in.x.size()),
        mean(c.cols),
        rstd(c.cols),
        variance(c.cols),
        dgamma(c.cols),
        dbeta(c.cols) {
    const auto rows = static_cast<double>(c.rows);
    for (std::int64_t k = 0; k < c.cols; ++k) {
      for (std::int64_t m = 0; m < c.rows; ++m) mean[k] += in.x[m * c.cols + k] / rows;
      double m2 = 0;
      for (std::int64_t m = 0; m < c.rows; ++m) m2 += std::pow(in.x[m * c.cols + k] - mean[k], 2);
      rstd[k] = 1 / std::sqrt(m2 / rows + kEpsilon);
      variance[k] = m2 / std::max(1.0, rows - 1);
      for (std::int64_t m = 0; m < c.rows; ++m) {
        const std::int64_t i = m * c.cols + k;
        const double xhat = (in.x[i] - mean[k]) * rstd[k];
        const double sum = xhat * in.gamma[k] + in.beta[k] + (c.residual ? in.residual[i] : 0);
        sums[i] = sum;
        y[i] = c.rectify == Rectify::kYes ? std::max(0.0, sum) : sum;
        dresidual[i] = c.rectify == Rectify::kYes && sum <= 0 ? 0 : in.dy[i];
        dbeta[k] += dresidual[i];
        dgamma[k] += dresidual[i] * xhat;
      }
      for (std::int64_t m = 0; m < c.rows; ++m) {
        const std::int64_t i = m * c.cols + k;
        const double xhat = (in.x[i] - mean[k]) * rstd[k];
        dx[i] = in.gamma[k] * rstd[k] * (dresidual[i] - (dbeta[k] + xhat * dgamma[k]) / rows);
      }
    }
  }
  std::vector<double> sums, y, dx, dresidual, mean, rstd, variance, dgamma, dbeta;
};

class BatchNormTest : public KernelTest {
 protected:
  Inputs inputs(const Case& c, DType dtype, float mean = 0.0f) {
    Inputs in{random(c.rows * c.cols, 1.0f, dtype), random(c.cols, 1.0f, dtype), random(c.cols, 1.0f, dtype),
              random(c.rows * c.cols, 1.0f, dtype), random(c.rows * c.cols, 1.0f, dtype)};
    for (float& x : in.x) x = rounded(x + mean, dtype);
    // Passes no gradient where the ReLU's argument is 0 up to rounding, since either gradient is right there.
    const std::vector<double> sums = Reference(c, in).sums;
    for (std::size_t i = 0; c.rectify == Rectify::kYes && i < sums.size(); ++i) {
      if (std::abs(sums[i]) < 1e-5) in.dy[i] = 0.0f;
    }
    return in;
  }

  struct Options {
    DType dtype = DType::kFloat32;
    GradientMode mode = GradientMode::kOverwrite;
    bool in_place = false;  // dx, or with a residual dresidual, over dy
  };

  // y, mean, rstd, variance, dx, dgamma, dbeta, dresidual.
  static Outputs run(const Rig& rig, const Case& c, const Inputs& in, const Options& options) {
    const Shape shape{c.rows, c.cols}, channels{c.cols};
    const DType dtype = options.dtype;
    const DeviceArray x = rig.upload(shape, in.x, dtype), residual = rig.upload(shape, in.residual, dtype);
    const DeviceArray gamma = rig.upload(channels, in.gamma, dtype),
                      beta = rig.upload(channels, in.beta, dtype);
    const DeviceArray y = rig.poisoned(shape, dtype), mean = rig.poisoned(channels),
                      rstd = rig.poisoned(channels), variance = rig.poisoned(channels);
    rig.run(BatchNormFwdArgs{.x = x,
                             .gamma = gamma,
                             .beta = beta,
                             .residual = c.residual ? ConstTensorView(residual) : ConstTensorView{},
                             .y = y,
                             .mean = mean,
                             .rstd = rstd,
                             .variance = variance,
                             .rectify = c.rectify});
    const DeviceArray dy = rig.upload(shape, in.dy, dtype), apart = rig.poisoned(shape, dtype),
                      second = rig.poisoned(shape, dtype);
    const bool accumulates = options.mode == GradientMode::kAccumulate;
    const DeviceArray dgamma = accumulates ? rig.upload(channels, in.gamma) : rig.poisoned(channels);
    const DeviceArray dbeta = accumulates ? rig.upload(channels, in.beta) : rig.poisoned(channels);
    const DeviceArray& dx = options.in_place && !c.residual ? dy : apart;
    const DeviceArray& dresidual = options.in_place ? dy : second;
    rig.run(BatchNormBwdArgs{
        .dy = dy,
        .x = x,
        .y = c.residual && c.rectify == Rectify::kYes ? ConstTensorView(y) : ConstTensorView{},
        .gamma = gamma,
        .beta = beta,
        .mean = mean,
        .rstd = rstd,
        .dx = dx,
        .dresidual = c.residual ? dresidual.view() : TensorView{},
        .dgamma = dgamma,
        .dbeta = dbeta,
        .dgamma_mode = options.mode,
        .dbeta_mode = options.mode,
        .rectify = c.rectify});
    Outputs out{y.download(),  mean.download(),   rstd.download(), variance.download(),
                dx.download(), dgamma.download(), dbeta.download()};
    if (c.residual) out.push_back(dresidual.download());
    return out;
  }

  static void expect_reference(const Case& c, const Inputs& in, const Outputs& out, const Options& options,
                               double absolute_of_y = 0.0) {
    const Reference r(c, in);
    const Tolerance forward = tolerance_of(options.dtype, kForwardTolerance);
    const Tolerance backward = tolerance_of(options.dtype, kBackwardTolerance);
    // The ReLU may keep only a small part of the sums, but all of their errors.
    if (c.rectify == Rectify::kYes) {
      absolute_of_y += kForwardTolerance * root_mean_square(r.sums);
    }
    expect_close(out[0], r.y, {forward.relative, forward.absolute + absolute_of_y}, "y");
    // Sums of few columns may cancel. This is the largest factor in them.
    float largest = 1.0f;
    for (const float x : in.x) largest = std::max(largest, std::abs(x));
    const auto few = [&](double tolerance, double terms) {
      return Tolerance(tolerance).for_terms(terms * largest, r.mean.size());
    };
    const auto rows = static_cast<double>(c.rows);
    expect_close(out[1], r.mean, few(kForwardTolerance, 1.0), "mean");
    expect_close(out[2], r.rstd, kForwardTolerance, "rstd");
    if (c.rows > 1) expect_close(out[3], r.variance, kForwardTolerance, "variance");
    if (c.rows > 1) expect_close(out[4], r.dx, backward, "dx");
    expect_close(out[5], accumulated(r.dgamma, in.gamma, options.mode), few(kBackwardTolerance, rows),
                 "dgamma");
    expect_close(out[6], accumulated(r.dbeta, in.beta, options.mode), few(kBackwardTolerance, rows), "dbeta");
    if (c.residual) expect_close(out[7], r.dresidual, backward, "dresidual");
  }
};

TEST_P(BatchNormTest, MatchesReference) {
  for (const DType dtype : kFloatTypes) {
    for (const auto& [rows, cols] :
         {std::pair{7, 3}, {5, 5}, {40, 1}, {1000, 33}, {1100, 64}, {3, 500}, {20, 2048}, {300, 520}}) {
      for (const bool residual : {false, true}) {
        for (const Rectify rectify : {Rectify::kNo, Rectify::kYes}) {
          const Case c{rows, cols, residual, rectify};
          SCOPED_TRACE(fmt::format("{} rows, {} columns, residual {}, rectified {}", rows, cols, residual,
                                   rectify == Rectify::kYes));
          const Inputs in = inputs(c, dtype);
          const Options options{.dtype = dtype};
          expect_reference(
              c, in, same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, in, options); }),
              options);
        }
      }
    }
  }
}

TEST_P(BatchNormTest, GradientModesAndInPlace) {
  for (const DType dtype : kFloatTypes) {
    for (const bool residual : {false, true}) {
      const Case c{1000, 127, residual, Rectify::kYes};
      const Inputs in = inputs(c, dtype);
      const Options options{.dtype = dtype, .mode = GradientMode::kAccumulate, .in_place = true};
      expect_reference(c, in, run(rig(), c, in, options), options);
    }
  }
}

// One 1 x 1 image in the batch: the variance is zero, and the result is beta.
TEST_P(BatchNormTest, OneRow) {
  const Case c{1, 5};
  const Inputs in = inputs(c, DType::kFloat32);
  const Outputs out = run(rig(), c, in, {});
  // y = x scale + shift. With zero variance, scale is gamma / sqrt(epsilon), up to 316 times the y that
  // remains after both cancel. Four roundings of the cancelling terms are allowed.
  double cancelled = 0.0;
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    cancelled = std::max(cancelled, std::abs(in.x[i] * in.gamma[i]) / std::sqrt(kEpsilon));
  }
  expect_reference(c, in, out, {}, 4 * 0x1p-24 * cancelled);
  EXPECT_EQ(out[3], std::vector<float>(5, 0.0f));
  for (const float dx : out[4]) EXPECT_EQ(dx, 0.0f);
}

TEST_P(BatchNormTest, KeepsTheDigitsOfALargeMean) {
  const Case c{5000, 20};
  const Inputs in = inputs(c, DType::kFloat32, 1000.0f);
  const Outputs out = run(rig(), c, in, {});
  const Reference r(c, in);
  expect_close(out[1], r.mean, 1e-6, "mean");
  expect_close(out[3], r.variance, 1e-4, "variance");
}

// More chunks of rows than a block of the cuda backend combines at a time, with a short last chunk.
TEST_P(BatchNormTest, ManyRows) {
  const Case c{70001, 16, true, Rectify::kYes};
  const Inputs in = inputs(c, DType::kFloat32);
  expect_reference(c, in, run(rig(), c, in, {}), {});
}

TEST_P(BatchNormTest, Infer) {
  for (const bool residual : {false, true}) {
    const Case c{3, 1000, residual, Rectify::kYes};
    const Inputs in = inputs(c, DType::kFloat32);
    const auto mean = random(c.cols);
    auto variance = random(c.cols);
    for (float& v : variance) v = v * v + 0.1f;
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
      const Shape shape{c.rows, c.cols}, channels{c.cols};
      const DeviceArray x = rig.upload(shape, in.x), r = rig.upload(shape, in.residual),
                        y = rig.poisoned(shape), gamma = rig.upload(channels, in.gamma),
                        beta = rig.upload(channels, in.beta), m = rig.upload(channels, mean),
                        v = rig.upload(channels, variance);
      rig.run(BatchNormInferArgs{.x = x,
                                 .gamma = gamma,
                                 .beta = beta,
                                 .mean = m,
                                 .variance = v,
                                 .residual = residual ? ConstTensorView(r) : ConstTensorView{},
                                 .y = y,
                                 .rectify = Rectify::kYes});
      return Outputs{y.download()};
    });
    std::vector<double> expected(in.x.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t k = i % static_cast<std::size_t>(c.cols);
      const double xhat = (in.x[i] - mean[k]) / std::sqrt(variance[k] + kEpsilon);
      expected[i] = std::max(0.0, xhat * in.gamma[k] + in.beta[k] + (residual ? in.residual[i] : 0));
    }
    expect_close(out[0], expected, kForwardTolerance, "y");
  }
}

TEST_P(BatchNormTest, NanStaysInItsChannel) {
  const Case c{64, 20, false, Rectify::kYes};
  Inputs in = inputs(c, DType::kFloat32);
  in.x[17 * 20 + 3] = std::numeric_limits<float>::quiet_NaN();
  const Outputs out = run(rig(), c, in, {});
  for (std::size_t i = 0; i < out[0].size(); ++i) {
    EXPECT_EQ(std::isnan(out[0][i]), i % 20 == 3) << i;
    EXPECT_EQ(std::isnan(out[4][i]), i % 20 == 3) << i;
  }
}

TEST_P(BatchNormTest, MoveAverageHeedsSkip) {
  const std::int64_t size = 100;
  const auto start = random(size), sample = random(size);
  for (const std::int32_t skip : {0, 1}) {
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
      const DeviceArray value = rig.upload({size}, start), from = rig.upload({size}, sample),
                        flag = rig.scalar(skip);
      rig.run(MoveAverageArgs{.value = value, .sample = from, .momentum = 0.25f, .skip = flag});
      return Outputs{value.download()};
    });
    std::vector<double> expected(start.begin(), start.end());
    for (std::int64_t i = 0; i < size && skip == 0; ++i) expected[i] = 0.75 * start[i] + 0.25 * sample[i];
    expect_close(out[0], expected, 1e-6, "value");
    EXPECT_EQ(same_bits(out[0], start), skip == 1);
  }
}

TEST_P(BatchNormTest, MoveAverageRampsItsDecay) {
  const std::int64_t size = 100;
  const auto start = random(size), sample = random(size);
  for (const std::int32_t step : {1, 7, 100000}) {
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
      const DeviceArray value = rig.upload({size}, start), from = rig.upload({size}, sample),
                        count = rig.scalar(step);
      rig.run(MoveAverageArgs{.value = value, .sample = from, .momentum = 0.25f, .step = count, .tau = 10.0});
      return Outputs{value.download()};
    });
    const double decay = 0.75 * (1 - std::exp(-step / 10.0));
    std::vector<double> expected(start.begin(), start.end());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = decay * start[i] + (1 - decay) * sample[i];
    expect_close(out[0], expected, 1e-6, "value");
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(BatchNormTest);

}  // namespace
}  // namespace trireme::testing
