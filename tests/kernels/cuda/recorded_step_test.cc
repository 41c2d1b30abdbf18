// On a GPU: a recorded step has the bits of an enqueued one, whatever runs between steps. step_graph_test.cc
// tests the same in the emulation, including counts.
#include <gtest/gtest.h>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "parallel/run/step_graph.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

struct Outcome {
  std::vector<float> losses, norms, evaluations;
  std::vector<std::int64_t> peaks;
  std::uint64_t state_hash = 0;
};

Outcome train(bool cuda_graph) {
  const GptConfig config = testing::tiny_gpt_config();
  constexpr std::int64_t kGlobalBatch = 4;
  Engine engine(build_gpt(config), LocalWorld(1).communicator(0),
                {.device = {DeviceType::kCuda, 0},
                 .global_batch = kGlobalBatch,
                 .micro_batch = 2,
                 .seed = 5,
                 .optimizer = {.weight_decay = 0.1f},
                 .grad_clip = 0.5f,
                 .cuda_graph = cuda_graph});
  Outcome outcome;
  for (int step = 0; step < 8; ++step) {
    const StepResult result =
        engine.step(testing::token_source(config.vocab, config.seq_len, step * kGlobalBatch),
                    kGlobalBatch * config.seq_len, 1e-2 / (1 + step));
    // Libraries make their handles in the first step, and the second step fills the graph's pool.
    if (cuda_graph) {
      EXPECT_EQ(engine.step_graph()->replayed(), step >= 2) << "step " << step;
    }
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
    outcome.peaks.push_back(result.memory.peak_total);
    outcome.evaluations.push_back(
        engine.evaluate(testing::token_source(config.vocab, config.seq_len, 1000), 6, 6 * config.seq_len));
  }
  outcome.state_hash = engine.state_hash();
  return outcome;
}

TEST(RecordedStep, HasTheBitsOfAnEnqueuedOne) {
  const Outcome recorded = train(true), enqueued = train(false);
  EXPECT_EQ(recorded.losses, enqueued.losses);
  EXPECT_EQ(recorded.norms, enqueued.norms);
  EXPECT_EQ(recorded.evaluations, enqueued.evaluations);
  EXPECT_EQ(recorded.state_hash, enqueued.state_hash);
  for (const std::int64_t peak : recorded.peaks) EXPECT_EQ(peak, recorded.peaks.front());
}

}  // namespace
}  // namespace trireme
