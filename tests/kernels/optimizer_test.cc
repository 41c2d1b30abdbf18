// Optimizer updates, the gradient norm and the clip coefficient.
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr std::int64_t kSizes[] = {1, 3, 127, 1000, 40001};

class OptimizerTest : public KernelTest {
 protected:
  // With gradients and working copy of `dtype`.
  void adamw(DType dtype);
  void lion(DType dtype);
  void sgd(DType dtype);
};

TEST_P(OptimizerTest, AdamW) {
  for (const DType dtype : kFloatTypes) adamw(dtype);
}

TEST_P(OptimizerTest, Lion) {
  for (const DType dtype : kFloatTypes) lion(dtype);
}

TEST_P(OptimizerTest, Sgd) {
  for (const DType dtype : kFloatTypes) sgd(dtype);
}

void OptimizerTest::adamw(DType dtype) {
  for (const std::int64_t n : kSizes) {
    for (const std::int32_t step : {1, 7, 100000}) {
      for (const bool with_working : {false, true}) {
        SCOPED_TRACE(fmt::format("{} n {} step {} working {}", name(dtype), n, step, with_working));
        auto p = random(n), m = random(n), v = random(n), g = random(n, 1.0f, dtype);
        for (float& value : v) value *= value;
        const double lr = 0.01f, clip = 0.7f, beta1 = 0.9f, beta2 = 0.95f, decay = 0.1f, epsilon = 1e-8f;
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray param = rig.upload({n}, p), exp_avg = rig.upload({n}, m);
          const DeviceArray exp_avg_sq = rig.upload({n}, v), working = rig.poisoned({n}, dtype);
          const DeviceArray grad = rig.upload({n}, g, dtype), dev_lr = rig.scalar(0.01f),
                            dev_clip = rig.scalar(0.7f);
          const DeviceArray dev_step = rig.scalar(step);
          AdamWArgs args{.param = param,
                         .exp_avg = exp_avg,
                         .exp_avg_sq = exp_avg_sq,
                         .grad = grad,
                         .lr = dev_lr,
                         .clip = dev_clip,
                         .step = dev_step,
                         .beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .epsilon = 1e-8f,
                         .weight_decay = 0.1f};
          if (with_working) args.working = working;
          rig.run(args);
          return {param.download(), exp_avg.download(), exp_avg_sq.download(), working.download()};
        });
        std::vector<double> new_p(n), new_m(n), new_v(n);
        for (std::int64_t i = 0; i < n; ++i) {
          const double gi = clip * g[i];
          new_m[i] = beta1 * m[i] + (1 - beta1) * gi;
          new_v[i] = beta2 * v[i] + (1 - beta2) * gi * gi;
          const double m_hat = new_m[i] / (1 - std::pow(beta1, step));
          const double v_hat = new_v[i] / (1 - std::pow(beta2, step));
          new_p[i] = p[i] - lr * decay * p[i] - lr * m_hat / (std::sqrt(v_hat) + epsilon);
        }
        const Tolerance tolerance = Tolerance(kForwardTolerance).for_terms(2.0, new_p.size());
        expect_close(out[0], new_p, tolerance, "param");
        expect_close(out[1], new_m, tolerance, "exp_avg");
        expect_close(out[2], new_v, kForwardTolerance, "exp_avg_sq");
        if (with_working) {
          EXPECT_TRUE(same_bits(out[3], rounded(out[0], dtype)));
        }
      }
    }
  }
}

void OptimizerTest::lion(DType dtype) {
  const double lr = 0.01f, clip = 0.7f, beta1 = 0.9f, beta2 = 0.99f, decay = 0.1f;
  for (const std::int64_t n : kSizes) {
    for (const bool with_working : {false, true}) {
      SCOPED_TRACE(fmt::format("{} n {} working {}", name(dtype), n, with_working));
      const auto p = random(n), g = random(n, 1.0f, dtype);
      auto m = random(n);
      // Keeps the direction away from 0, where a rounding would decide the sign.
      const auto direction = [&](std::int64_t i) { return beta1 * m[i] + (1 - beta1) * clip * g[i]; };
      for (std::int64_t i = 0; i < n; ++i) {
        if (std::abs(direction(i)) < 1e-3) m[i] += 0.01f;
      }
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray param = rig.upload({n}, p), exp_avg = rig.upload({n}, m);
        const DeviceArray working = rig.poisoned({n}, dtype), grad = rig.upload({n}, g, dtype);
        const DeviceArray dev_lr = rig.scalar(0.01f), dev_clip = rig.scalar(0.7f);
        LionArgs args{.param = param,
                      .exp_avg = exp_avg,
                      .grad = grad,
                      .lr = dev_lr,
                      .clip = dev_clip,
                      .beta1 = 0.9f,
                      .beta2 = 0.99f,
                      .weight_decay = 0.1f};
        if (with_working) args.working = working;
        rig.run(args);
        return {param.download(), exp_avg.download(), working.download()};
      });
      std::vector<double> new_p(n), new_m(n);
      for (std::int64_t i = 0; i < n; ++i) {
        new_p[i] = p[i] - lr * decay * p[i] - lr * (direction(i) > 0 ? 1.0 : -1.0);
        new_m[i] = beta2 * m[i] + (1 - beta2) * clip * g[i];
      }
      const Tolerance tolerance = Tolerance(kForwardTolerance).for_terms(2.0, new_p.size());
      expect_close(out[0], new_p, tolerance, "param");
      expect_close(out[1], new_m, tolerance, "exp_avg");
      if (with_working) {
        EXPECT_TRUE(same_bits(out[2], rounded(out[0], dtype)));
      }
    }
  }
}

// The update has no magnitude: 0 moves nothing, infinity moves by 1, and NaN stays visible.
TEST_P(OptimizerTest, LionMovesBySigns) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> g{0.0f, -0.0f, 1e-30f, -1e30f, inf, -inf, nan};
  const auto n = static_cast<std::int64_t>(g.size());
  const Rig r = rig();
  const DeviceArray param = r.upload({n}, std::vector<float>(g.size(), 2.0f));
  const DeviceArray m = r.upload({n}, std::vector<float>(g.size()));
  r.run(LionArgs{
      .param = param, .exp_avg = m, .grad = r.upload({n}, g), .lr = r.scalar(0.5f), .clip = r.scalar(1.0f)});
  const auto out = param.download();
  const float expected[] = {2.0f, 2.0f, 1.5f, 2.5f, 1.5f, 2.5f};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(out[i], expected[i]) << i;
  EXPECT_TRUE(std::isnan(out[6]));
  EXPECT_TRUE(std::isnan(m.download()[6]));
}

void OptimizerTest::sgd(DType dtype) {
  for (const std::int64_t n : kSizes) {
    for (const std::int32_t step : {1, 2}) {
      for (const float momentum : {0.0f, 0.9f}) {
        for (const bool nesterov : {false, true}) {
          if (momentum == 0.0f && nesterov) continue;
          SCOPED_TRACE(fmt::format("{} n {} step {} momentum {} nesterov {}", name(dtype), n, step, momentum,
                                   nesterov));
          const auto p = random(n), buffer = random(n), g = random(n, 1.0f, dtype);
          const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
            const DeviceArray param = rig.upload({n}, p), grad = rig.upload({n}, g, dtype);
            const DeviceArray working = rig.poisoned({n}, dtype);
            const DeviceArray moved = step == 1 ? rig.poisoned({n}) : rig.upload({n}, buffer);
            const DeviceArray lr = rig.scalar(0.05f), clip = rig.scalar(0.5f), dev_step = rig.scalar(step);
            SgdArgs args{.param = param,
                         .grad = grad,
                         .working = working,
                         .lr = lr,
                         .clip = clip,
                         .step = dev_step,
                         .momentum = momentum,
                         .weight_decay = 0.02f,
                         .nesterov = nesterov};
            if (momentum != 0.0f) args.momentum_buffer = moved;
            rig.run(args);
            return {param.download(), moved.download(), working.download()};
          });
          std::vector<double> new_p(n), new_buffer(n);
          for (std::int64_t i = 0; i < n; ++i) {
            const double gi = 0.5 * g[i] + double{0.02f} * p[i];
            new_buffer[i] = step == 1 ? gi : momentum * buffer[i] + gi;
            const double update = momentum == 0.0f ? gi
                                  : nesterov       ? gi + momentum * new_buffer[i]
                                                   : new_buffer[i];
            new_p[i] = p[i] - double{0.05f} * update;
          }
          const Tolerance tolerance = Tolerance(kForwardTolerance).for_terms(2.0, new_p.size());
          expect_close(out[0], new_p, tolerance, "param");
          EXPECT_TRUE(same_bits(out[2], rounded(out[0], dtype)));
          if (momentum != 0.0f) expect_close(out[1], new_buffer, tolerance, "momentum buffer");
        }
      }
    }
  }
}

// A working copy with a center holds the rounded difference from it, for every rule.
TEST_P(OptimizerTest, WorkingCopiesHaveACenter) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t n : {3, 40001}) {
      auto p = random(n, 0.01f);
      for (float& value : p) value += 1.0f;
      const auto g = random(n);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray by_adamw = rig.upload({n}, p), by_sgd = rig.upload({n}, p);
        const DeviceArray by_lion = rig.upload({n}, p), lion_working = rig.poisoned({n}, dtype);
        const DeviceArray adamw_working = rig.poisoned({n}, dtype), sgd_working = rig.poisoned({n}, dtype);
        const DeviceArray m = rig.upload({n}, std::vector<float>(n)),
                          v = rig.upload({n}, std::vector<float>(n));
        const DeviceArray grad = rig.upload({n}, g), lr = rig.scalar(1e-3f), clip = rig.scalar(1.0f);
        const DeviceArray step = rig.scalar(1);
        rig.run(AdamWArgs{.param = by_adamw,
                          .exp_avg = m,
                          .exp_avg_sq = v,
                          .grad = grad,
                          .working = adamw_working,
                          .lr = lr,
                          .clip = clip,
                          .step = step,
                          .working_center = 1.0f});
        rig.run(SgdArgs{.param = by_sgd,
                        .grad = grad,
                        .working = sgd_working,
                        .lr = lr,
                        .clip = clip,
                        .step = step,
                        .working_center = 1.0f});
        rig.run(LionArgs{.param = by_lion,
                         .exp_avg = rig.upload({n}, std::vector<float>(n)),
                         .grad = grad,
                         .working = lion_working,
                         .lr = lr,
                         .clip = clip,
                         .working_center = 1.0f});
        return {by_adamw.download(),    adamw_working.download(), by_sgd.download(),
                sgd_working.download(), by_lion.download(),       lion_working.download()};
      });
      for (const int master : {0, 2, 4}) {
        auto difference = out[static_cast<std::size_t>(master)];
        EXPECT_FALSE(same_bits(difference, p));
        for (float& value : difference) value -= 1.0f;
        EXPECT_TRUE(same_bits(out[static_cast<std::size_t>(master) + 1], rounded(difference, dtype)));
      }
    }
  }
}

TEST_P(OptimizerTest, NanReachesTheParameter) {
  const Rig r = rig();
  auto g = random(100);
  g[40] = std::numeric_limits<float>::quiet_NaN();
  const DeviceArray param = r.upload({100}, random(100)), m = r.upload({100}, random(100));
  const DeviceArray v = r.upload({100}, std::vector<float>(100, 0.5f));
  r.run(AdamWArgs{.param = param,
                  .exp_avg = m,
                  .exp_avg_sq = v,
                  .grad = r.upload({100}, g),
                  .lr = r.scalar(0.1f),
                  .clip = r.scalar(1.0f),
                  .step = r.scalar(3)});
  const auto out = param.download();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(std::isnan(out[i]), i == 40) << i;
}

TEST_P(OptimizerTest, SquaredNormBlocks) {
  for (const std::int64_t blocks : {1, 3, 127, 1000}) {
    const auto x = random(blocks * kNormBlock);
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray partials = rig.poisoned({blocks});
      rig.run(SquaredNormBlocksArgs{.x = rig.upload({blocks * kNormBlock}, x), .partials = partials});
      return {partials.download()};
    });
    std::vector<double> expected(blocks, 0.0);
    for (std::int64_t i = 0; i < blocks * kNormBlock; ++i) expected[i / kNormBlock] += double{x[i]} * x[i];
    expect_close(out[0], expected, kForwardTolerance, "partials");
    // A block's sum does not depend on its position, which sharding relies on.
    const Rig r = rig();
    const DeviceArray last = r.poisoned({1});
    const std::vector<float> tail(x.end() - kNormBlock, x.end());
    r.run(SquaredNormBlocksArgs{.x = r.upload({kNormBlock}, tail), .partials = last});
    EXPECT_EQ(last.download()[0], out[0].back());
  }
}

// A partial is infinite if an element is; the skip relies on that.
TEST_P(OptimizerTest, SquaredNormBlocksOfSixteenBits) {
  constexpr std::int64_t kBlocks = 37;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    auto x = random(kBlocks * kNormBlock, 100.0f, dtype);
    const auto run = [&](DType type) {
      return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray partials = rig.poisoned({kBlocks});
        rig.run(
            SquaredNormBlocksArgs{.x = rig.upload({kBlocks * kNormBlock}, x, type), .partials = partials});
        return {partials.download()};
      })[0];
    };
    std::vector<double> expected(kBlocks, 0.0);
    for (std::int64_t i = 0; i < kBlocks * kNormBlock; ++i) expected[i / kNormBlock] += double{x[i]} * x[i];
    expect_close(run(dtype), expected, kForwardTolerance, "partials");
    x[5 * kNormBlock + 1000] = std::numeric_limits<float>::infinity();
    x[7 * kNormBlock + 1] = std::numeric_limits<float>::quiet_NaN();
    const auto partials = run(dtype);
    for (std::int64_t b = 0; b < kBlocks; ++b) EXPECT_EQ(std::isfinite(partials[b]), b != 5 && b != 7) << b;
  }
}

TEST_P(OptimizerTest, ClipCoefficient) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  struct ClipCase {
    std::vector<float> partials;
    float max_norm, norm, clip;
  };
  for (const ClipCase& c :
       {ClipCase{{9.0f, 16.0f}, 1.0f, 5.0f, 0.2f}, ClipCase{{9.0f, 16.0f}, 10.0f, 5.0f, 1.0f},
        ClipCase{{9.0f, 16.0f}, 0.0f, 5.0f, 1.0f}, ClipCase{{0.0f}, 1.0f, 0.0f, 1.0f},
        ClipCase{{inf, 1.0f}, 1.0f, inf, 0.0f}, ClipCase{{1.0f, nan}, 1.0f, nan, nan}}) {
    const Outputs out = same_bits_for_all_threads([&](const Rig& r) -> Outputs {
      const DeviceArray norm = r.poisoned({}), clip = r.poisoned({});
      const auto k = static_cast<std::int64_t>(c.partials.size());
      r.run(ClipCoefficientArgs{
          .partials = r.upload({k}, c.partials), .norm = norm, .clip = clip, .max_norm = c.max_norm});
      return {norm.download(), clip.download()};
    });
    const float actual_norm = out[0][0], actual_clip = out[1][0];
    if (std::isnan(c.norm)) {
      EXPECT_TRUE(std::isnan(actual_norm) && std::isnan(actual_clip));
    } else {
      EXPECT_FLOAT_EQ(actual_norm, c.norm);
      EXPECT_NEAR(actual_clip, c.clip, 1e-6f);
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(OptimizerTest);

}  // namespace
}  // namespace trireme::testing
