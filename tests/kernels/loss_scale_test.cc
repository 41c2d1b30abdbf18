// Loss scaling on the device: GradScaler's rule, and its effect on the clip coefficient and the update.
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Rule {
  float growth = 2.0f, backoff = 0.5f;
  std::int32_t interval = 2000;
};

/// The rule as PyTorch documents it (torch.cuda.amp.GradScaler), on the host.
struct Scaler {
  float scale = 65536.0f;
  std::int32_t clean_steps = 0, skip = 0, skipped_in_a_row = 0, step = 0;

  void update(bool overflow, const Rule& rule) {
    skip = overflow;
    if (overflow) {
      ++skipped_in_a_row;
      clean_steps = 0;
      scale *= rule.backoff;
      return;
    }
    skipped_in_a_row = 0;
    ++step;
    if (++clean_steps < rule.interval) return;
    if (std::isfinite(scale * rule.growth)) scale *= rule.growth;
    clean_steps = 0;
  }
};

/// The same state in device memory.
struct DeviceScaler {
  explicit DeviceScaler(const Rig& rig, const Scaler& start = {})
      : scale(rig.scalar(start.scale)),
        clean_steps(rig.scalar(start.clean_steps)),
        skip(rig.poisoned({}, DType::kInt32)),
        skipped_in_a_row(rig.scalar(start.skipped_in_a_row)),
        step(rig.scalar(start.step)) {}

  UpdateLossScaleArgs args(const DeviceArray& norm, const Rule& rule) const {
    return {.norm = norm,
            .scale = scale,
            .clean_steps = clean_steps,
            .skip = skip,
            .skipped_in_a_row = skipped_in_a_row,
            .step = step,
            .growth_factor = rule.growth,
            .backoff_factor = rule.backoff,
            .growth_interval = rule.interval};
  }

  DeviceArray scale, clean_steps, skip, skipped_in_a_row, step;
};

void expect_same(const DeviceScaler& actual, const Scaler& expected) {
  EXPECT_EQ(actual.scale.download()[0], expected.scale);
  EXPECT_EQ(actual.clean_steps.download_ints()[0], expected.clean_steps);
  EXPECT_EQ(actual.skip.download_ints()[0], expected.skip);
  EXPECT_EQ(actual.skipped_in_a_row.download_ints()[0], expected.skipped_in_a_row);
  EXPECT_EQ(actual.step.download_ints()[0], expected.step);
}

class LossScaleTest : public KernelTest {
 protected:
  // Overflows come in bursts, separated by clean runs of all lengths around the interval.
  std::vector<float> norms(std::int64_t steps, std::int32_t interval) {
    std::vector<float> pattern;
    const float bad[] = {kInfinity, kNan, -kNan, -kInfinity};
    while (static_cast<std::int64_t>(pattern.size()) < steps) {
      const auto clean = random_ints(1, 0, 3 * interval)[0], burst = random_ints(1, 1, 4)[0];
      for (const float norm : random(clean, 1e3f)) pattern.push_back(std::fabs(norm));
      for (int i = 0; i < burst; ++i) pattern.push_back(bad[(pattern.size() + i) % 4]);
    }
    pattern.resize(static_cast<std::size_t>(steps));
    return pattern;
  }

  void follow(const Rule& rule, std::int64_t steps) {
    SCOPED_TRACE(fmt::format("x{} after {} steps, else x{}", rule.growth, rule.interval, rule.backoff));
    const Rig r = rig();
    const DeviceScaler actual(r);
    Scaler expected;
    int skips = 0, growths = 0;
    for (const float norm : norms(steps, rule.interval)) {
      const float before = expected.scale;
      expected.update(!std::isfinite(norm), rule);
      skips += expected.skip;
      growths += expected.scale > before;
      r.run(actual.args(r.scalar(norm), rule));
      expect_same(actual, expected);
      if (HasFailure()) return;
    }
    EXPECT_GT(skips, 10);
    EXPECT_GT(growths, 10);
  }
};

TEST_P(LossScaleTest, FollowsTheRuleOverARandomPattern) {
  follow({.interval = 7}, 3000);
  follow({.interval = 1}, 300);
  follow({.growth = 1.5f, .backoff = 0.25f, .interval = 20}, 3000);
}

TEST_P(LossScaleTest, IsTheSameInEveryRun) {
  const std::vector<float> pattern = norms(50, 3);
  same_bits_for_all_threads([&](const Rig& rig) {
    const DeviceScaler scaler(rig);
    Outputs scales;
    for (const float norm : pattern) {
      rig.run(scaler.args(rig.scalar(norm), {.interval = 3}));
      scales.push_back(scaler.scale.download());
    }
    return scales;
  });
}

TEST_P(LossScaleTest, GrowsAfterTwoThousandCleanSteps) {
  const Rig r = rig();
  const DeviceScaler actual(r, {.clean_steps = 1998, .step = 1998});
  const DeviceArray norm = r.scalar(1.0f);
  r.run(actual.args(norm, {}));
  expect_same(actual, {.scale = 65536.0f, .clean_steps = 1999, .step = 1999});
  r.run(actual.args(norm, {}));
  expect_same(actual, {.scale = 131072.0f, .clean_steps = 0, .step = 2000});
}

// An infinite scale could never decrease again.
TEST_P(LossScaleTest, NeverGrowsToInfinity) {
  const Rig r = rig();
  const float largest = std::ldexp(1.0f, 127);
  const DeviceScaler actual(r, {.scale = largest});
  r.run(actual.args(r.scalar(0.0f), {.interval = 1}));
  expect_same(actual, {.scale = largest, .step = 1});
}

TEST_P(LossScaleTest, AStaticScaleStays) {
  const Rule rule{.interval = 0};
  const Rig r = rig();
  const DeviceScaler actual(r, {.scale = 1024.0f});
  Scaler expected{.scale = 1024.0f};
  for (const float norm : {1.0f, kInfinity, kNan, 0.0f, kInfinity, 2.0f, 3.0f}) {
    r.run(actual.args(r.scalar(norm), rule));
    expected.skip = !std::isfinite(norm);
    expected.skipped_in_a_row = expected.skip ? expected.skipped_in_a_row + 1 : 0;
    expected.step += !expected.skip;
    expect_same(actual, expected);
  }
}

TEST_P(LossScaleTest, WithoutAScaleSkipsAreCountedAlone) {
  const Rig r = rig();
  const DeviceScaler actual(r, {.scale = 3.0f, .clean_steps = 5});
  std::int32_t in_a_row = 0, step = 0;
  for (const float norm : {kNan, kInfinity, 1.0f, 2.0f, kNan}) {
    const DeviceArray dev_norm = r.scalar(norm);
    UpdateLossScaleArgs args = actual.args(dev_norm, {.interval = 1});
    args.scale = args.clean_steps = {};
    r.run(args);
    in_a_row = std::isfinite(norm) ? 0 : in_a_row + 1;
    step += std::isfinite(norm);
    expect_same(actual, {.scale = 3.0f,
                         .clean_steps = 5,
                         .skip = !std::isfinite(norm),
                         .skipped_in_a_row = in_a_row,
                         .step = step});
  }
}

// norm and clip are as if the gradients had never been scaled.
TEST_P(LossScaleTest, ClipCoefficientUnscales) {
  struct ClipCase {
    std::vector<float> partials;
    float max_norm, scale, norm, clip;
  };
  // An infinite norm clips to 0, and 0 * infinity is NaN. Skipping the step keeps both out of the parameters.
  for (const ClipCase& c :
       {ClipCase{{9.0f, 16.0f}, 1.0f, 4.0f, 1.25f, 0.8f / 4.0f},
        ClipCase{{9.0f, 16.0f}, 2.0f, 4.0f, 1.25f, 0.25f}, ClipCase{{9.0f, 16.0f}, 0.0f, 4.0f, 1.25f, 0.25f},
        ClipCase{{9.0f, 16.0f}, 1.0f, 1.0f, 5.0f, 0.2f},
        ClipCase{{9e8f, 16e8f}, 0.5f, 65536.0f, 5e4f / 65536.0f, 0.5f / 5e4f},
        ClipCase{{kInfinity, 1.0f}, 1.0f, 65536.0f, kInfinity, 0.0f}}) {
    const Rig r = rig();
    const DeviceArray norm = r.poisoned({}), clip = r.poisoned({});
    r.run(
        ClipCoefficientArgs{.partials = r.upload({static_cast<std::int64_t>(c.partials.size())}, c.partials),
                            .norm = norm,
                            .clip = clip,
                            .max_norm = c.max_norm,
                            .gradient_scale = r.scalar(c.scale)});
    EXPECT_FLOAT_EQ(norm.download()[0], c.norm);
    EXPECT_NEAR(clip.download()[0], c.clip, 1e-5f * c.clip);
  }
  const Rig r = rig();
  const DeviceArray norm = r.poisoned({}), clip = r.poisoned({});
  r.run(ClipCoefficientArgs{.partials = r.upload({2}, std::vector<float>{1.0f, kNan}),
                            .norm = norm,
                            .clip = clip,
                            .gradient_scale = r.scalar(65536.0f)});
  EXPECT_TRUE(std::isnan(norm.download()[0]));
}

// Scaling by a power of two and dividing again changes no bit of the update.
TEST_P(LossScaleTest, APowerOfTwoLeavesTheNormAndTheUpdateAsTheyAre) {
  const auto partials = random(100);
  Outputs results;
  for (const float scale : {1.0f, 1024.0f}) {
    std::vector<float> scaled = partials;
    for (float& value : scaled) value = std::fabs(value) * scale * scale;
    const Rig r = rig();
    const DeviceArray norm = r.poisoned({}), clip = r.poisoned({});
    r.run(ClipCoefficientArgs{.partials = r.upload({100}, scaled),
                              .norm = norm,
                              .clip = clip,
                              .max_norm = 0.5f,
                              .gradient_scale = r.scalar(scale)});
    results.push_back({norm.download()[0], clip.download()[0] * scale});
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

// Counts of all ranks are added exactly; losses are divided, and norm and clip as if gradients had been.
TEST_P(LossScaleTest, LossesAndGradientsAreDividedByACount) {
  const std::vector<float> counted = {1, 2, 3, /*counts*/ 0, 16777215, 2, 4, 5, 6, /*counts*/ 7, 0, 8};
  struct CountCase {
    std::vector<float> counted;
    float inverse, divisor;
  };
  for (const CountCase& c : {CountCase{counted, 0.5f, 16777232 * 0.5f}, CountCase{counted, 0.0f, 1.0f},
                             CountCase{std::vector<float>(12, 0.0f), 0.125f, 0.125f}}) {
    const Outputs out = same_bits_for_all_threads([&](const Rig& r) -> Outputs {
      const DeviceArray losses = r.poisoned({6}), divisor = r.poisoned({});
      r.run(DivideLossesArgs{.counted = r.upload({2, 2, 3}, c.counted),
                             .losses = losses,
                             .divisor = divisor,
                             .inv_num_targets = c.inverse});
      return {losses.download(), divisor.download()};
    });
    EXPECT_EQ(out[1][0], c.divisor);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(out[0][i], c.counted[i < 3 ? i : i + 3] / c.divisor) << i;
  }
  const Rig r = rig();
  const DeviceArray norm = r.poisoned({}), clip = r.poisoned({});
  r.run(ClipCoefficientArgs{.partials = r.upload({2}, std::vector<float>{9.0f, 16.0f}),
                            .norm = norm,
                            .clip = clip,
                            .gradient_scale = r.scalar(4.0f),
                            .divisor = r.scalar(8.0f)});
  EXPECT_EQ(norm.download()[0], 5.0f / 32);
  EXPECT_EQ(clip.download()[0], 1.0f / 32);
}

TEST_P(LossScaleTest, ASkippedUpdateWritesNothing) {
  for (const std::int64_t n : {1, 127, 1000, 40001}) {
    const auto p = random(n), m = random(n), v = random(n), w = random(n);
    const std::vector<float> g(n, kNan);
    for (const std::int32_t skip : {0, 1}) {
      const Rig r = rig();
      const DeviceArray param = r.upload({n}, p), exp_avg = r.upload({n}, m), exp_avg_sq = r.upload({n}, v);
      const DeviceArray working = r.upload({n}, w), grad = r.upload({n}, g), one = r.scalar(1.0f);
      const DeviceArray step = r.scalar(3), dev_skip = r.scalar(skip);
      const auto expect = [&](const char* optimizer, const std::vector<const DeviceArray*>& arrays) {
        const std::vector<float>* before[] = {&p, &m, &w, &v};
        for (std::size_t i = 0; i < arrays.size(); ++i) {
          EXPECT_EQ(same_bits(arrays[i]->download(), *before[i]), skip == 1) << optimizer << " " << i;
        }
      };
      r.run(AdamWArgs{.param = param,
                      .exp_avg = exp_avg,
                      .exp_avg_sq = exp_avg_sq,
                      .grad = grad,
                      .working = working,
                      .lr = one,
                      .clip = one,
                      .step = step,
                      .skip = dev_skip});
      expect("adamw", {&param, &exp_avg, &working, &exp_avg_sq});
      const DeviceArray param2 = r.upload({n}, p), buffer = r.upload({n}, m), working2 = r.upload({n}, w);
      r.run(SgdArgs{.param = param2,
                    .momentum_buffer = buffer,
                    .grad = grad,
                    .working = working2,
                    .lr = one,
                    .clip = one,
                    .step = step,
                    .skip = dev_skip,
                    .momentum = 0.9f});
      expect("sgd", {&param2, &buffer, &working2});
      const DeviceArray param3 = r.upload({n}, p), average = r.upload({n}, m), working3 = r.upload({n}, w);
      r.run(LionArgs{.param = param3,
                     .exp_avg = average,
                     .grad = grad,
                     .working = working3,
                     .lr = one,
                     .clip = one,
                     .skip = dev_skip});
      expect("lion", {&param3, &average, &working3});
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(LossScaleTest);

}  // namespace
}  // namespace trireme::testing
