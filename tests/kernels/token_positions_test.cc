#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t samples, tokens, cols;  // of x
  bool has_first;
  std::int64_t all_tokens() const { return tokens + (has_first ? 1 : 0); }
};
constexpr Case kCases[] = {{1, 1, 1, false},   {1, 1, 1, true},    {3, 5, 7, true},  {2, 4, 2051, false},
                           {2, 3, 2051, true}, {5, 16, 64, false}, {4, 49, 96, true}};

class TokenPositionsTest : public KernelTest {
 protected:
  void forward(const Case& c, DType dtype);
  void backward(const Case& c, DType dtype, GradientMode first_mode, GradientMode positions_mode);
};

void TokenPositionsTest::forward(const Case& c, DType dtype) {
  const std::int64_t tokens = c.all_tokens();
  const auto x = random(c.samples * c.tokens * c.cols, 1.0f, dtype), first = random(c.cols, 1.0f, dtype);
  const auto positions = random(tokens * c.cols, 1.0f, dtype);
  const auto run = [&](bool in_place) {
    return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray dev_x = rig.upload({c.samples, c.tokens, c.cols}, x, dtype);
      const DeviceArray apart = rig.poisoned({c.samples, tokens, c.cols}, dtype);
      const DeviceArray dev_first = rig.upload({c.cols}, first, dtype);
      const DeviceArray dev_positions = rig.upload({tokens, c.cols}, positions, dtype);
      const DeviceArray& y = in_place ? dev_x : apart;
      TokenPositionsFwdArgs args{.x = dev_x, .positions = dev_positions, .y = y};
      if (c.has_first) args.first = dev_first;
      rig.run(args);
      return {y.download()};
    });
  };
  const Outputs out = run(false);
  if (!c.has_first) {
    EXPECT_TRUE(same_bits(out[0], run(true)[0]));
  }
  for (std::int64_t i = 0; i < c.samples * tokens * c.cols; ++i) {
    const std::int64_t t = i / c.cols % tokens, b = i / c.cols / tokens, col = i % c.cols;
    const std::int64_t from = t - (c.has_first ? 1 : 0);
    const float token = from < 0 ? first[col] : x[(b * c.tokens + from) * c.cols + col];
    ASSERT_EQ(out[0][i], rounded(token + positions[t * c.cols + col], dtype)) << i;
  }
}

void TokenPositionsTest::backward(const Case& c, DType dtype, GradientMode first_mode,
                                  GradientMode positions_mode) {
  const std::int64_t tokens = c.all_tokens();
  const auto dy = random(c.samples * tokens * c.cols, 1.0f, dtype);
  const auto first_start = random(c.cols), positions_start = random(tokens * c.cols);
  std::vector<double> dfirst(c.cols, 0.0), dpositions(tokens * c.cols, 0.0);
  for (std::int64_t i = 0; i < c.samples * tokens * c.cols; ++i) {
    dpositions[i % (tokens * c.cols)] += dy[i];
    if (i / c.cols % tokens == 0) dfirst[i % c.cols] += dy[i];
  }
  const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
    const auto start = [&](GradientMode mode, const Shape& shape, const std::vector<float>& values) {
      return mode == GradientMode::kAccumulate ? rig.upload(shape, values) : rig.poisoned(shape);
    };
    const DeviceArray dev_dy = rig.upload({c.samples, tokens, c.cols}, dy, dtype);
    const DeviceArray dx = rig.poisoned({c.samples, c.tokens, c.cols}, dtype);
    const DeviceArray first = start(first_mode, {c.cols}, first_start);
    const DeviceArray positions = start(positions_mode, {tokens, c.cols}, positions_start);
    TokenPositionsBwdArgs args{.dy = dev_dy, .dfirst_mode = first_mode, .dpositions_mode = positions_mode};
    if (c.has_first) args.dx = dx;
    if (first_mode != GradientMode::kIgnore) args.dfirst = first;
    if (positions_mode != GradientMode::kIgnore) args.dpositions = positions;
    rig.run(args);
    return {dx.download(), first.download(), positions.download()};
  });
  for (std::int64_t i = 0; c.has_first && i < c.samples * c.tokens * c.cols; ++i) {
    const std::int64_t b = i / c.cols / c.tokens, t = i / c.cols % c.tokens + 1;
    ASSERT_EQ(out[0][i], dy[(b * tokens + t) * c.cols + i % c.cols]) << i;
  }
  const auto terms = static_cast<double>(c.samples + 1);
  if (first_mode != GradientMode::kIgnore) {
    expect_close(out[1], accumulated(dfirst, first_start, first_mode),
                 Tolerance(kForwardTolerance).for_terms(terms, dfirst.size()), "dfirst");
  }
  if (positions_mode != GradientMode::kIgnore) {
    expect_close(out[2], accumulated(dpositions, positions_start, positions_mode),
                 Tolerance(kForwardTolerance).for_terms(terms, dpositions.size()), "dpositions");
  }
}

TEST_P(TokenPositionsTest, Forward) {
  for (const Case& c : kCases) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(
          fmt::format("{} [{}, {}, {}] first {}", name(dtype), c.samples, c.tokens, c.cols, c.has_first));
      forward(c, dtype);
    }
  }
}

TEST_P(TokenPositionsTest, BackwardInEveryMode) {
  using enum GradientMode;
  for (const Case& c : kCases) {
    for (const DType dtype : kFloatTypes) {
      for (const GradientMode first_mode : {kOverwrite, kAccumulate, kIgnore}) {
        if (!c.has_first && first_mode != kIgnore) continue;
        for (const GradientMode positions_mode : {kOverwrite, kAccumulate, kIgnore}) {
          SCOPED_TRACE(fmt::format("{} [{}, {}, {}] modes {} {}", name(dtype), c.samples, c.tokens, c.cols,
                                   static_cast<int>(first_mode), static_cast<int>(positions_mode)));
          backward(c, dtype, first_mode, positions_mode);
        }
      }
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(TokenPositionsTest);

}  // namespace
}  // namespace trireme::testing
