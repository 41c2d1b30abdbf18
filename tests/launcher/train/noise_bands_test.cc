#include "launcher/train/noise_bands.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// A micro-batch of samples of two numbers whose target is 0.
void add_samples(NoiseBands& bands, const std::vector<float>& predictions,
                 const std::vector<float>& timesteps, const std::vector<float>& weights, std::int64_t first) {
  const Context ctx = Context::create({DeviceType::kCpu}, 1);
  const auto count = static_cast<std::int64_t>(timesteps.size());
  const std::vector<float> zeros(predictions.size());
  Batch batch;
  batch.targets = ctx.from_host(zeros.data(), {count, 2}, DType::kFloat32);
  batch.timesteps = ctx.from_host(timesteps.data(), {count}, DType::kFloat32);
  batch.target_weights = ctx.from_host(weights.data(), {count}, DType::kFloat32);
  bands.add(ctx, ctx.from_host(predictions.data(), {count, 2}, DType::kFloat32), batch, first);
}

TEST(NoiseBands, AreMeansOfTenthsOfTheTimesteps) {
  NoiseBands bands(5);
  add_samples(bands, {1, 1, 3, 3}, {0, 99}, {1, 1}, 0);
  add_samples(bands, {2, 0, 9, 9, 4, 4}, {100, 500, 999}, {1, 0, 1}, 2);
  const std::vector<double> means = bands.means();
  ASSERT_EQ(means.size(), 10u);
  EXPECT_DOUBLE_EQ(means[0], 5);
  EXPECT_DOUBLE_EQ(means[1], 2);
  EXPECT_DOUBLE_EQ(means[9], 16);
  EXPECT_TRUE(std::isnan(means[5]));  // its sample was left out
  EXPECT_EQ(bands.num_samples(), 4);
  EXPECT_THROW(NoiseBands(3).num_samples(), Error);
}

// Each rank adds its own samples; all ranks have the same means as one rank.
TEST(NoiseBands, AreThoseOfAllRanks) {
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    NoiseBands bands(3);
    if (comm->rank() == 0) add_samples(bands, {1, 1}, {10}, {1}, 0);
    if (comm->rank() == 1) add_samples(bands, {2, 2, 3, 3}, {20, 950}, {1, 1}, 1);
    bands.gather(*comm);
    EXPECT_EQ(bands.num_samples(), 3);
    EXPECT_DOUBLE_EQ(bands.means()[0], 2.5);
    EXPECT_DOUBLE_EQ(bands.means()[9], 9);
  });
}

}  // namespace
}  // namespace trireme
