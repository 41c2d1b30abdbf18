#include "runtime/diffusion/noise_schedule.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Kind = NoiseSchedule::Kind;

NoiseSchedule schedule_of(Kind kind) {
  return NoiseSchedule({.kind = kind});
}

// The last products of diffusers 0.42: DDPMScheduler(beta_schedule=..., beta_start=..., beta_end=...).
TEST(NoiseSchedule, HasThePublishedProducts) {
  EXPECT_NEAR(schedule_of(Kind::kLinear).alpha_product(0), 0.9999, 1e-12);
  EXPECT_NEAR(schedule_of(Kind::kLinear).alpha_product(999), 4.0358e-5, 1e-8);
  EXPECT_NEAR(schedule_of(Kind::kScaledLinear).alpha_product(0), 0.99915, 1e-12);
  EXPECT_NEAR(schedule_of(Kind::kScaledLinear).alpha_product(999), 4.6601e-3, 1e-6);
  EXPECT_NEAR(schedule_of(Kind::kCosine).alpha_product(499), 0.4938, 1e-3);
}

TEST(NoiseSchedule, SignalAndNoiseHaveUnitVariance) {
  for (const Kind kind : {Kind::kLinear, Kind::kScaledLinear, Kind::kCosine}) {
    const NoiseSchedule schedule = schedule_of(kind);
    for (std::int64_t t = 0; t < NoiseSchedule::kNumTimesteps; ++t) {
      const double signal = schedule.signal(t), noise = schedule.noise(t);
      EXPECT_NEAR(signal * signal + noise * noise, 1, 1e-12);
      if (t > 0) {
        EXPECT_LT(signal, schedule.signal(t - 1));
      }
    }
  }
}

// A squared error of v or x_0 is a multiple of the squared error of the noise; so are the weights.
TEST(NoiseSchedule, WeightsOfAllTargetsAreOneLoss) {
  const NoiseSchedule schedule = schedule_of(Kind::kLinear);
  for (const std::int64_t t : {0, 10, 300, 700, 999}) {
    const double snr = schedule.signal_to_noise(t), least = std::min(snr, 5.0);
    EXPECT_DOUBLE_EQ(schedule.min_snr_weight(t, 5, DiffusionTarget::kSample), least);
    EXPECT_NEAR(schedule.min_snr_weight(t, 5, DiffusionTarget::kNoise) * snr, least, 1e-9);
    EXPECT_NEAR(schedule.min_snr_weight(t, 5, DiffusionTarget::kVelocity) * (snr + 1), least, 1e-9);
    EXPECT_EQ(schedule.min_snr_weight(t, 0, DiffusionTarget::kNoise), 1);
  }
}

TEST(NoiseSchedule, RefusesBetasThatFall) {
  EXPECT_THROW(NoiseSchedule({.betas = {0.02, 0.01}}), Error);
  EXPECT_THROW(schedule_of(Kind::kLinear).signal(1000), Error);
}

}  // namespace
}  // namespace trireme
