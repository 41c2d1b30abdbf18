// The parts of Muon other than matrix products.
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

class MuonTest : public KernelTest {};

TEST_P(MuonTest, Momentum) {
  const double clip = 0.7f, momentum = 0.95f;
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t n : {1, 3, 127, 1000, 40001}) {
      for (const bool nesterov : {false, true}) {
        for (const std::int32_t skip : {0, 1}) {
          SCOPED_TRACE(fmt::format("{} n {} nesterov {} skip {}", name(dtype), n, nesterov, skip));
          const auto m = random(n), g = random(n, 1.0f, dtype);
          const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
            const DeviceArray buffer = rig.upload({n}, m), update = rig.poisoned({n});
            rig.run(MuonMomentumArgs{.momentum_buffer = buffer,
                                     .update = update,
                                     .grad = rig.upload({n}, g, dtype),
                                     .clip = rig.scalar(0.7f),
                                     .skip = rig.scalar(skip),
                                     .momentum = 0.95f,
                                     .nesterov = nesterov});
            return {buffer.download(), update.download()};
          });
          if (skip != 0) {
            EXPECT_TRUE(same_bits(out[0], m));
            EXPECT_TRUE(same_bits(out[1], std::vector<float>(n)));
            continue;
          }
          std::vector<double> new_m(n), update(n);
          for (std::int64_t i = 0; i < n; ++i) {
            const double gi = clip * g[i];
            new_m[i] = m[i] + (1 - momentum) * (gi - m[i]);
            update[i] = nesterov ? gi + momentum * (new_m[i] - gi) : new_m[i];
          }
          const Tolerance tolerance = Tolerance(kForwardTolerance).for_terms(3.0, new_m.size());
          expect_close(out[0], new_m, tolerance, "momentum");
          expect_close(out[1], update, tolerance, "update");
        }
      }
    }
  }
}

TEST_P(MuonTest, NanReachesTheUpdate) {
  const Rig r = rig();
  auto g = random(100);
  g[40] = std::numeric_limits<float>::quiet_NaN();
  const DeviceArray buffer = r.upload({100}, random(100)), update = r.poisoned({100});
  r.run(MuonMomentumArgs{
      .momentum_buffer = buffer, .update = update, .grad = r.upload({100}, g), .clip = r.scalar(1.0f)});
  const auto out = update.download(), moved = buffer.download();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(std::isnan(out[i]), i == 40) << i;
    EXPECT_EQ(std::isnan(moved[i]), i == 40) << i;
  }
}

TEST_P(MuonTest, InverseNorm) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto factor_of = [&](const std::vector<float>& partials) {
    return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray factor = rig.poisoned({});
      const auto k = static_cast<std::int64_t>(partials.size());
      rig.run(InverseNormArgs{.partials = rig.upload({k}, partials), .factor = factor, .epsilon = 1e-3f});
      return {factor.download()};
    })[0][0];
  };
  EXPECT_EQ(factor_of({9.0f, 16.0f}), 0.2f);
  EXPECT_EQ(factor_of({0.0f}), static_cast<float>(1.0 / double{1e-3f}));
  EXPECT_EQ(factor_of({1e-8f}), static_cast<float>(1.0 / double{1e-3f}));
  EXPECT_EQ(factor_of({inf, 1.0f}), 0.0f);
  EXPECT_TRUE(std::isnan(factor_of({1.0f, nan})));
  std::vector<float> many(3001);
  double sum = 0;
  for (float& partial : many) sum += double{partial = random(1)[0] + 1.0f};
  EXPECT_NEAR(factor_of(many), 1.0 / std::sqrt(sum), 1e-6);
}

TEST_P(MuonTest, ScaleAddIdentity) {
  for (const std::int64_t m : {1, 2, 7, 64, 129}) {
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(fmt::format("{} x {} in place {}", m, m, in_place));
      const auto x = random(m * m);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray from = rig.upload({m, m}, x), to = rig.poisoned({m, m});
        rig.run(ScaleAddIdentityArgs{
            .x = from, .y = in_place ? from.view() : to.view(), .scale = 0.25f, .identity = 3.0f});
        return {in_place ? from.download() : to.download()};
      });
      for (std::int64_t i = 0; i < m * m; ++i) {
        EXPECT_EQ(out[0][i], 0.25f * x[i] + (i / m == i % m ? 3.0f : 0.0f)) << i;
      }
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(MuonTest);

}  // namespace
}  // namespace trireme::testing
