#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Sizes {
  std::int64_t samples, tokens, cols;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {2, 3, 5}, {3, 64, 128}, {2, 2051, 3}, {1, 7, 2051}};

class SequencePoolTest : public KernelTest {};

struct Expected {
  std::vector<double> weights, y, dx, dscores;
};

Expected reference(const Sizes& s, const std::vector<float>& x, const std::vector<float>& scores,
                   const std::vector<float>& dy) {
  Expected e{.weights = std::vector<double>(s.samples * s.tokens),
             .y = std::vector<double>(s.samples * s.cols, 0.0),
             .dx = std::vector<double>(x.size()),
             .dscores = std::vector<double>(s.samples * s.tokens)};
  for (std::int64_t b = 0; b < s.samples; ++b) {
    const auto first = scores.begin() + b * s.tokens;
    const double largest = *std::max_element(first, first + s.tokens);
    double sum = 0.0, mean = 0.0;
    for (std::int64_t n = 0; n < s.tokens; ++n) sum += std::exp(first[n] - largest);
    std::vector<double> g(s.tokens, 0.0);
    for (std::int64_t n = 0; n < s.tokens; ++n) {
      const double weight = std::exp(first[n] - largest) / sum;
      e.weights[b * s.tokens + n] = weight;
      for (std::int64_t c = 0; c < s.cols; ++c) {
        const std::int64_t at = (b * s.tokens + n) * s.cols + c;
        e.y[b * s.cols + c] += weight * x[at];
        e.dx[at] = weight * dy[b * s.cols + c];
        g[n] += static_cast<double>(dy[b * s.cols + c]) * x[at];
      }
      mean += weight * g[n];
    }
    for (std::int64_t n = 0; n < s.tokens; ++n) {
      e.dscores[b * s.tokens + n] = e.weights[b * s.tokens + n] * (g[n] - mean);
    }
  }
  return e;
}

TEST_P(SequencePoolTest, MatchesReference) {
  for (const DType dtype : kFloatTypes) {
    for (const Sizes& s : kSizes) {
      SCOPED_TRACE(fmt::format("{} [{}, {}, {}]", name(dtype), s.samples, s.tokens, s.cols));
      const auto x = random(s.samples * s.tokens * s.cols, 1.0f, dtype);
      const auto scores = random(s.samples * s.tokens, 4.0f, dtype);
      const auto dy = random(s.samples * s.cols, 1.0f, dtype);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const Shape tokens{s.samples, s.tokens, s.cols}, weights_shape{s.samples, s.tokens};
        const DeviceArray dev_x = rig.upload(tokens, x, dtype), weights = rig.poisoned(weights_shape);
        const DeviceArray y = rig.poisoned({s.samples, s.cols}, dtype);
        const DeviceArray dx = rig.poisoned(tokens, dtype), dscores = rig.poisoned(weights_shape, dtype);
        rig.run(SequencePoolFwdArgs{
            .x = dev_x, .scores = rig.upload(weights_shape, scores, dtype), .weights = weights, .y = y});
        rig.run(SequencePoolBwdArgs{.dy = rig.upload({s.samples, s.cols}, dy, dtype),
                                    .x = dev_x,
                                    .weights = weights,
                                    .dx = dx,
                                    .dscores = dscores});
        return {weights.download(), y.download(), dx.download(), dscores.download()};
      });
      const Expected e = reference(s, x, scores, dy);
      const auto bound = [&](DType of, double fp32, double terms, std::size_t elems) {
        return tolerance_of(of, fp32).for_terms(terms, elems);
      };
      expect_close(out[0], e.weights, kForwardTolerance, "weights");
      expect_close(out[1], e.y, bound(dtype, kForwardTolerance, 2.0, e.y.size()), "y");
      expect_close(out[2], e.dx, bound(dtype, kBackwardTolerance, 1.0, e.dx.size()), "dx");
      expect_close(out[3], e.dscores,
                   bound(dtype, kBackwardTolerance, static_cast<double>(s.cols), e.dscores.size()),
                   "dscores");
    }
  }
}

TEST_P(SequencePoolTest, LargeScoresAndNan) {
  const Rig r = rig();
  const Shape scores{2, 3};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::vector<float> values = {3e38f, -3e38f, 0.0f, 1.0f, std::numeric_limits<float>::quiet_NaN(),
                                     2.0f};
  const DeviceArray weights = r.poisoned(scores), y = r.poisoned({2, 1});
  r.run(SequencePoolFwdArgs{
      .x = r.upload({2, 3, 1}, x), .scores = r.upload(scores, values), .weights = weights, .y = y});
  const auto out = y.download();
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_TRUE(std::isnan(out[1]));
}

TRIREME_INSTANTIATE_KERNEL_TEST(SequencePoolTest);

}  // namespace
}  // namespace trireme::testing
