#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr float kEpsilon = 1e-5f;

struct Case {
  std::int64_t samples;
  Shape positions;  // of a sample: {H, W} or {T}
  std::int64_t channels, groups;
  DType dtype = DType::kFloat32;
  Activation activation = Activation::kNone;

  std::int64_t rows() const { return positions.num_elems(); }
  std::int64_t sample_elems() const { return rows() * channels; }
  std::int64_t elems() const { return samples * sample_elems(); }
  Shape shape() const {
    if (positions.rank() == 1) return {samples, positions[0], channels};
    return {samples, positions[0], positions[1], channels};
  }
  std::string text() const {
    return fmt::format("{} {} in {} groups, activation {}", name(dtype), shape().to_string(), groups,
                       static_cast<int>(activation));
  }
};

// One value a group; odd sizes; several pieces a sample, the last one smaller; wide rows; one group.
const Case kCases[] = {{1, {1}, 2, 1},        {2, {1, 1}, 6, 3},    {3, {5, 7}, 12, 4},    {2, {9}, 33, 11},
                       {2, {33, 31}, 64, 32}, {1, {50, 51}, 40, 8}, {2, {3, 3}, 1280, 32}, {5, {4, 4}, 7, 1}};

struct Inputs {
  std::vector<float> x, gamma, beta, dy, dx_add, dgamma, dbeta;
};

struct Reference {
  std::vector<double> y, mean, rstd, dx, dgamma, dbeta;
};

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

Reference reference(const Case& c, const Inputs& in) {
  const std::int64_t width = c.channels / c.groups;
  Reference r{.y = std::vector<double>(in.x.size()),
              .mean = {},
              .rstd = {},
              .dx = std::vector<double>(in.x.size()),
              .dgamma = std::vector<double>(c.channels),
              .dbeta = std::vector<double>(c.channels)};
  for (std::int64_t group = 0; group < c.samples * c.groups; ++group) {
    const std::int64_t first = group % c.groups * width;
    const auto for_each = [&](const auto& visit) {
      for (std::int64_t row = 0; row < c.rows(); ++row) {
        for (std::int64_t ch = first; ch < first + width; ++ch) {
          visit((group / c.groups * c.rows() + row) * c.channels + ch, ch);
        }
      }
    };
    const auto total = static_cast<double>(c.rows() * width);
    double mean = 0, variance = 0, sum = 0, sum_xhat = 0;
    for_each([&](std::int64_t i, std::int64_t) { mean += in.x[i] / total; });
    for_each([&](std::int64_t i, std::int64_t) { variance += (in.x[i] - mean) * (in.x[i] - mean) / total; });
    const double rstd = 1 / std::sqrt(variance + double{kEpsilon});
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
    const auto gradient_before = [&](std::int64_t i, std::int64_t ch) {
      const double u = (in.x[i] - mean) * rstd * in.gamma[ch] + in.beta[ch];
      const double slope = sigmoid(u) * (1 + u * (1 - sigmoid(u)));
      return in.dy[i] * (c.activation == Activation::kSilu ? slope : 1.0);
    };
    for_each([&](std::int64_t i, std::int64_t ch) {
      const double xhat = (in.x[i] - mean) * rstd, u = xhat * in.gamma[ch] + in.beta[ch];
      const double g = gradient_before(i, ch);
      r.y[i] = c.activation == Activation::kSilu ? u * sigmoid(u) : u;
      r.dgamma[ch] += g * xhat;
      r.dbeta[ch] += g;
      sum += g * in.gamma[ch] / total;
      sum_xhat += g * in.gamma[ch] * xhat / total;
    });
    for_each([&](std::int64_t i, std::int64_t ch) {
      const double xhat = (in.x[i] - mean) * rstd;
      r.dx[i] = rstd * (gradient_before(i, ch) * in.gamma[ch] - sum - xhat * sum_xhat);
    });
  }
  return r;
}

enum class DxGoes { kApart, kOverDy, kOverDxAdd };

struct Options {
  GradientMode dgamma = GradientMode::kOverwrite, dbeta = GradientMode::kOverwrite;
  bool has_dx_add = false, y_over_x = false;
  DxGoes dx = DxGoes::kApart;
};

class GroupNormTest : public KernelTest {
 protected:
  Inputs inputs_of(const Case& c) {
    Inputs in{.x = random(c.elems(), 1.0f),
              .gamma = random(c.channels, 1.0f, c.dtype),
              .beta = random(c.channels, 1.0f, c.dtype),
              .dy = random(c.elems(), 1.0f, c.dtype),
              .dx_add = random(c.elems(), 1.0f, c.dtype),
              .dgamma = random(c.channels),
              .dbeta = random(c.channels)};
    for (float& value : in.x) value += 3.0f;  // a mean for which a one-pass variance loses digits
    in.x = rounded(std::move(in.x), c.dtype);
    return in;
  }

  // y, mean, rstd, dx, dgamma, dbeta.
  static Outputs run(const Rig& rig, const Case& c, const Inputs& in, const Options& options = {}) {
    const Shape row{c.channels}, statistics{c.samples, c.groups};
    const DeviceArray x = rig.upload(c.shape(), in.x, c.dtype), over = rig.upload(c.shape(), in.x, c.dtype);
    const DeviceArray gamma = rig.upload(row, in.gamma, c.dtype), beta = rig.upload(row, in.beta, c.dtype);
    const DeviceArray other_y = rig.poisoned(c.shape(), c.dtype);
    const DeviceArray mean = rig.poisoned(statistics), rstd = rig.poisoned(statistics);
    const DeviceArray& y = options.y_over_x ? over : other_y;
    rig.run(GroupNormFwdArgs{.x = options.y_over_x ? over : x,
                             .gamma = gamma,
                             .beta = beta,
                             .y = y,
                             .mean = mean,
                             .rstd = rstd,
                             .epsilon = kEpsilon,
                             .activation = c.activation});
    const DeviceArray dy = rig.upload(c.shape(), in.dy, c.dtype),
                      dx_add = rig.upload(c.shape(), in.dx_add, c.dtype),
                      other_dx = rig.poisoned(c.shape(), c.dtype);
    const DeviceArray& dx = options.dx == DxGoes::kApart    ? other_dx
                            : options.dx == DxGoes::kOverDy ? dy
                                                            : dx_add;
    const auto start = [&](GradientMode mode, const std::vector<float>& values) {
      return mode == GradientMode::kAccumulate ? rig.upload(row, values) : rig.poisoned(row);
    };
    const DeviceArray dgamma = start(options.dgamma, in.dgamma), dbeta = start(options.dbeta, in.dbeta);
    GroupNormBwdArgs bwd{.dy = dy,
                         .x = x,
                         .gamma = gamma,
                         .beta = beta,
                         .mean = mean,
                         .rstd = rstd,
                         .dx = dx,
                         .dgamma_mode = options.dgamma,
                         .dbeta_mode = options.dbeta,
                         .activation = c.activation};
    if (options.has_dx_add) bwd.dx_add = dx_add;
    if (options.dgamma != GradientMode::kIgnore) bwd.dgamma = dgamma;
    if (options.dbeta != GradientMode::kIgnore) bwd.dbeta = dbeta;
    rig.run(bwd);
    return {y.download(),  mean.download(),   rstd.download(),
            dx.download(), dgamma.download(), dbeta.download()};
  }

  Outputs outputs_of(const Case& c, const Inputs& in, const Options& options = {}) const {
    return same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, in, options); });
  }

  static void expect_reference(const Case& c, const Inputs& in, const Options& options, const Outputs& out) {
    const Reference expected = reference(c, in);
    // Few values of a group may be close to each other; the rest of x - mean then grows by rstd.
    double rstd = 0;
    for (const double value : expected.rstd) rstd = std::max(rstd, value);
    const double terms = 4 * rstd;
    const std::size_t few = c.rows() * c.channels / c.groups < 5 ? 1 : out[0].size();
    const auto stored = [&](double tolerance, double sum) {
      return tolerance_of(c.dtype, tolerance).for_terms(sum, few);
    };
    expect_close(out[0], expected.y, stored(kForwardTolerance, terms), "y");
    expect_close(out[1], expected.mean, Tolerance(kForwardTolerance).for_terms(4.0, out[1].size()), "mean");
    expect_close(out[2], expected.rstd, Tolerance(kForwardTolerance).for_terms(terms * rstd, few), "rstd");
    const GradientMode added = options.has_dx_add ? GradientMode::kAccumulate : GradientMode::kOverwrite;
    expect_close(out[3], accumulated(expected.dx, in.dx_add, added),
                 stored(kBackwardTolerance, terms * rstd * rstd), "dx");
    const Tolerance sums = Tolerance(kBackwardTolerance).for_terms(terms, few);
    if (options.dgamma != GradientMode::kIgnore) {
      expect_close(out[4], accumulated(expected.dgamma, in.dgamma, options.dgamma), sums, "dgamma");
    }
    if (options.dbeta != GradientMode::kIgnore) {
      expect_close(out[5], accumulated(expected.dbeta, in.dbeta, options.dbeta), sums, "dbeta");
    }
  }
};

TEST_P(GroupNormTest, MatchesReference) {
  for (Case c : kCases) {
    for (const DType dtype : kFloatTypes) {
      for (const Activation activation : {Activation::kNone, Activation::kSilu}) {
        c.dtype = dtype;
        c.activation = activation;
        SCOPED_TRACE(c.text());
        const Inputs in = inputs_of(c);
        expect_reference(c, in, {}, outputs_of(c, in));
      }
    }
  }
}

TEST_P(GroupNormTest, GradientModesAndResultsInPlace) {
  constexpr GradientMode kModes[] = {GradientMode::kOverwrite, GradientMode::kAccumulate,
                                     GradientMode::kIgnore};
  for (const DType dtype : kFloatTypes) {
    for (const Activation activation : {Activation::kNone, Activation::kSilu}) {
      const Case c{3, {11, 7}, 24, 8, dtype, activation};
      const Inputs in = inputs_of(c);
      for (const GradientMode dgamma : kModes) {
        for (const GradientMode dbeta : kModes) {
          for (const DxGoes dx : {DxGoes::kApart, DxGoes::kOverDy, DxGoes::kOverDxAdd}) {
            SCOPED_TRACE(fmt::format("{} modes {} {} dx {}", c.text(), static_cast<int>(dgamma),
                                     static_cast<int>(dbeta), static_cast<int>(dx)));
            const Options options{
                .dgamma = dgamma, .dbeta = dbeta, .has_dx_add = true, .y_over_x = true, .dx = dx};
            expect_reference(c, in, options, outputs_of(c, in, options));
          }
        }
      }
    }
  }
}

TEST_P(GroupNormTest, ASampleDoesNotDependOnTheBatch) {
  for (const Shape& positions : {Shape{5, 7}, Shape{40, 41}}) {
    Case c{5, positions, 48, 6, DType::kFloat32, Activation::kSilu};
    const Inputs in = inputs_of(c);
    const Outputs all = run(rig(), c, in);
    for (const std::int64_t sample : {0, 4}) {
      const auto part = [&](const std::vector<float>& from, std::int64_t elems) {
        return std::vector<float>(from.begin() + sample * elems, from.begin() + (sample + 1) * elems);
      };
      Case one = c;
      one.samples = 1;
      Inputs own = in;
      own.x = part(in.x, c.sample_elems());
      own.dy = part(in.dy, c.sample_elems());
      own.dx_add = part(in.dx_add, c.sample_elems());
      const Outputs alone = run(rig(), one, own);
      EXPECT_TRUE(same_bits(alone[0], part(all[0], c.sample_elems())));
      EXPECT_TRUE(same_bits(alone[1], part(all[1], c.groups)));
      EXPECT_TRUE(same_bits(alone[2], part(all[2], c.groups)));
      EXPECT_TRUE(same_bits(alone[3], part(all[3], c.sample_elems())));
    }
  }
}

TEST_P(GroupNormTest, NanAndInfinityStayInTheirGroup) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Case c{2, {3, 5}, 8, 2, DType::kFloat32, Activation::kSilu};
    Inputs in = inputs_of(c);
    in.x[c.sample_elems() + 2 * c.channels + 5] = bad;  // of sample 1, group 1
    const Outputs out = run(rig(), c, in);
    for (std::int64_t i = 0; i < c.elems(); ++i) {
      const bool is_hit = i >= c.sample_elems() && i % c.channels >= 4;
      EXPECT_EQ(std::isnan(out[0][i]), is_hit) << i;
      EXPECT_EQ(std::isnan(out[3][i]), is_hit) << i;
    }
    for (std::int64_t ch = 0; ch < c.channels; ++ch) EXPECT_EQ(std::isnan(out[4][ch]), ch >= 4) << ch;
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(GroupNormTest);

}  // namespace
}  // namespace trireme::testing
