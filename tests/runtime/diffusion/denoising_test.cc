#include "runtime/diffusion/denoising.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr DenoisingMethod kAllMethods[] = {DenoisingMethod::kDdpm, DenoisingMethod::kDdim,
                                           DenoisingMethod::kDpmSolver};

/// The exact predictions for data that is always `value`.
Denoiser constant_data(const NoiseSchedule& schedule, DiffusionTarget target, float value) {
  return [=](std::span<const float> x, std::int64_t t) {
    const double signal = schedule.signal(t), spread = schedule.noise(t);
    std::vector<float> prediction;
    for (const float at : x) {
      const double noise = (at - signal * value) / spread;
      prediction.push_back(static_cast<float>(target == DiffusionTarget::kNoise ? noise
                                              : target == DiffusionTarget::kSample
                                                  ? value
                                                  : signal * noise - spread * value));
    }
    return prediction;
  };
}

TEST(Denoising, FindsConstantData) {
  for (const auto kind : {NoiseSchedule::Kind::kLinear, NoiseSchedule::Kind::kScaledLinear}) {
    const NoiseSchedule schedule({.kind = kind});
    for (const DenoisingMethod method : kAllMethods) {
      for (const auto target :
           {DiffusionTarget::kNoise, DiffusionTarget::kVelocity, DiffusionTarget::kSample}) {
        const DenoisingOptions options{.method = method, .num_steps = 20, .prediction = target};
        for (const float x : denoise(schedule, options, constant_data(schedule, target, 0.3f), 7, 0, 2, 8)) {
          EXPECT_NEAR(x, 0.3f, 1e-3f);
        }
      }
    }
  }
}

// A sample is a function of the seed and its number.
TEST(Denoising, DoesNotDependOnHowManyAreMadeAtOnce) {
  const NoiseSchedule schedule{{}};
  const Denoiser predict = [](std::span<const float> x, std::int64_t t) {
    std::vector<float> prediction;
    for (const float at : x) prediction.push_back(std::sin(at + static_cast<float>(t)));
    return prediction;
  };
  for (const DenoisingMethod method : kAllMethods) {
    const DenoisingOptions options{.method = method, .num_steps = 10};
    const std::vector<float> all = denoise(schedule, options, predict, 5, 0, 4, 6),
                             last = denoise(schedule, options, predict, 5, 3, 1, 6);
    EXPECT_EQ(std::vector<float>(all.begin() + 18, all.end()), last);
    EXPECT_NE(denoise(schedule, options, predict, 6, 3, 1, 6), last);
    EXPECT_NE(std::vector<float>(all.begin(), all.begin() + 6), last);
  }
}

TEST(Denoising, TakesTheTimestepsOfDiffusers) {
  const NoiseSchedule schedule{{}};
  const auto timesteps = [&](DenoisingMethod method, std::int64_t steps) {
    return Denoising(schedule, {.method = method, .num_steps = steps}).timesteps();
  };
  EXPECT_EQ(timesteps(DenoisingMethod::kDdim, 4), (std::vector<std::int64_t>{750, 500, 250, 0}));
  EXPECT_EQ(timesteps(DenoisingMethod::kDpmSolver, 4), (std::vector<std::int64_t>{999, 749, 500, 250}));
  EXPECT_EQ(timesteps(DenoisingMethod::kDdpm, 1000).front(), 999);
  EXPECT_THROW(timesteps(DenoisingMethod::kDdim, 1001), Error);
  EXPECT_THROW(timesteps(DenoisingMethod::kDdim, 0), Error);
}

// Stable Diffusion's schedulers: timesteps from 1 on, and a last step that leaves the noise of timestep 0.
TEST(Denoising, ShiftsTimestepsAndKeepsTheLeastNoise) {
  const NoiseSchedule schedule{{}};
  const auto timesteps = [&](DenoisingMethod method) {
    return Denoising(schedule, {.method = method, .num_steps = 4, .steps_offset = 1}).timesteps();
  };
  EXPECT_EQ(timesteps(DenoisingMethod::kDdim), (std::vector<std::int64_t>{751, 501, 251, 1}));
  EXPECT_EQ(timesteps(DenoisingMethod::kDdpm), (std::vector<std::int64_t>{751, 501, 251, 1}));
  EXPECT_EQ(timesteps(DenoisingMethod::kDpmSolver), (std::vector<std::int64_t>{999, 749, 500, 250}));
  EXPECT_THROW(Denoising(schedule, {.num_steps = 1000, .steps_offset = 1}), Error);
  EXPECT_THROW(Denoising(schedule, {.num_steps = 4, .steps_offset = -1}), Error);

  Denoising last(schedule, {.num_steps = 1, .clips = false, .set_alpha_to_one = false});
  std::vector<float> x = {0.5f};
  last.step(0, std::vector<float>{0.25f}, {}, x);  // from timestep 0, whose noise stays as predicted
  EXPECT_NEAR(x[0], 0.5f, 1e-6f);
}

TEST(Denoising, IsGuidedAwayFromThePredictionWithoutACondition) {
  EXPECT_EQ(guided(std::vector<float>{1, 2}, std::vector<float>{0, 4}, 3), (std::vector<float>{3, -2}));
  EXPECT_EQ(guided(std::vector<float>{1, 2}, std::vector<float>{0, 4}, 0), (std::vector<float>{0, 4}));
}

}  // namespace
}  // namespace trireme
