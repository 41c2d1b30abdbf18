// The same model, plan and data on the cuda and cpu backends.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

struct Outcome {
  std::vector<float> losses, norms;
  std::vector<MemoryCounts> peaks;
  std::uint64_t state_hash = 0;
};

Outcome train(DeviceType type, float dropout = 0.0f, int recompute_every = 0) {
  GptConfig config = testing::tiny_gpt_config();
  config.dropout = dropout;
  constexpr std::int64_t kGlobalBatch = 4;
  Engine engine(build_gpt(config), LocalWorld(1).communicator(0),
                {.device = {type, 0},
                 .global_batch = kGlobalBatch,
                 .micro_batch = 2,
                 .seed = 5,
                 .optimizer = {.weight_decay = 0.1f},
                 .grad_clip = 0.5f,
                 .layout = {.recompute_every = recompute_every}});
  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    const StepResult result =
        engine.step(testing::token_source(config.vocab, config.seq_len, step * kGlobalBatch),
                    kGlobalBatch * config.seq_len, 1e-2);
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
    outcome.peaks.push_back(result.memory.at_peak);
  }
  outcome.state_hash = engine.state_hash();
  return outcome;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_LT(std::abs(actual[i] - expected[i]), tolerance * std::abs(expected[i])) << "step " << i;
  }
}

TEST(CudaGpt, LearnsAsOnTheCpu) {
  for (const float dropout : {0.0f, 0.1f}) {
    const Outcome cpu = train(DeviceType::kCpu, dropout), cuda = train(DeviceType::kCuda, dropout);
    expect_near(cuda.losses, cpu.losses, 1e-5);
    expect_near(cuda.norms, cpu.norms, 1e-4);
  }
}

TEST(CudaGpt, TakesTheSameMemory) {
  const Outcome cpu = train(DeviceType::kCpu), cuda = train(DeviceType::kCuda);
  for (std::size_t i = 0; i < cpu.peaks.size(); ++i) EXPECT_EQ(cuda.peaks[i].total(), cpu.peaks[i].total());
}

TEST(CudaGpt, SameBitsTwiceAndWithRecompute) {
  const Outcome once = train(DeviceType::kCuda, 0.1f), again = train(DeviceType::kCuda, 0.1f),
                recomputed = train(DeviceType::kCuda, 0.1f, 1);
  EXPECT_EQ(once.losses, again.losses);
  EXPECT_EQ(once.state_hash, again.state_hash);
  EXPECT_EQ(once.losses, recomputed.losses);
  EXPECT_EQ(once.state_hash, recomputed.state_hash);
}

}  // namespace
}  // namespace trireme
