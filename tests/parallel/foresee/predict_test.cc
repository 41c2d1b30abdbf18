// Memory and traffic are known before launch: the prediction equals the measurement to the byte.
#include "parallel/foresee/predict.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>

#include "parallel/comm/local.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

struct Case {
  const char* name;
  int ranks;
  std::int64_t global_batch, micro_batch;
  GptConfig model;
  Reduction reduction = Reduction::kCanonical;
  OptimizerConfig::Kind optimizer = OptimizerConfig::Kind::kAdamW;
};

MemoryCounts without_workspace(MemoryCounts counts) {
  counts[MemoryCategory::kWorkspace] = 0;
  return counts;
}

class PredictTest : public ::testing::TestWithParam<Case> {};

TEST_P(PredictTest, EqualsTheMeasurement) {
  const Case& c = GetParam();
  const auto blocks = std::make_shared<const BlockList>(build_gpt(c.model));
  const EngineOptions options{.global_batch = c.global_batch,
                              .micro_batch = c.micro_batch,
                              .optimizer = {.kind = c.optimizer},
                              .grad_clip = 1.0f,
                              .reduction = c.reduction};
  const Shape tokens{c.model.seq_len};
  std::mutex mutex;
  run_local_ranks(c.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    const StepPrediction predicted =
        predict_step(blocks, options, {.input = tokens, .target = tokens}, c.ranks, comm->rank());
    for (int step = 0; step < 2; ++step) {
      const StepResult measured = engine.step(testing::token_source(c.model.vocab, c.model.seq_len, 0),
                                              c.global_batch * c.model.seq_len, 1e-3);
      const std::lock_guard lock(mutex);
      EXPECT_EQ(without_workspace(measured.memory.peak).bytes, predicted.memory.peak.bytes)
          << "step " << step;
      EXPECT_EQ(without_workspace(measured.memory.at_peak).bytes, predicted.memory.at_peak.bytes);
      EXPECT_EQ(measured.memory.peak_total, predicted.memory.peak_total);
      EXPECT_EQ(measured.sent_bytes, predicted.sent_bytes);
      EXPECT_GT(predicted.memory.peak[MemoryCategory::kActivations], 0);
      EXPECT_EQ(predicted.memory.peak[MemoryCategory::kCommunication] > 0,
                c.ranks > 1 && c.reduction == Reduction::kCanonical);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PredictTest,
    ::testing::Values(Case{"one_rank", 1, 4, 2, testing::tiny_gpt_config()},
                      Case{"four_ranks_accumulating", 4, 16, 1, testing::tiny_gpt_config()},
                      Case{"three_ranks_odd", 3, 15, 1, testing::tiny_gpt_config()},
                      Case{"untied_with_dropout", 2, 8, 4,
                           GptConfig{.layers = 3,
                                     .hidden = 48,
                                     .heads = 3,
                                     .vocab = 100,
                                     .seq_len = 24,
                                     .dropout = 0.1f,
                                     .tied = false}},
                      Case{"fast", 2, 8, 2, testing::tiny_gpt_config(), Reduction::kFast},
                      Case{"sgd", 2, 4, 2, testing::tiny_gpt_config(), Reduction::kCanonical,
                           OptimizerConfig::Kind::kSgd}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Predict, ThirteenBillionParametersWithoutAllocating) {
  const GptConfig config = gpt_config_for_size("13b");
  const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
  const EngineOptions options{.global_batch = 64, .micro_batch = 1, .grad_clip = 1.0f};
  const Shape tokens{config.seq_len};
  const StepPrediction predicted = predict_step(blocks, options, {.input = tokens, .target = tokens}, 8, 7);
  // Two fp32 moments and an fp32 master of 12.85e9 parameters, plus gaps between parameters of at most 0.1 %.
  const auto parameters = static_cast<double>(make_layout(*blocks).num_parameters);
  const auto masters = static_cast<double>(predicted.memory.peak[MemoryCategory::kParameters]);
  EXPECT_NEAR(masters / (4.0 * parameters), 1.0, 1e-3);
  EXPECT_EQ(predicted.memory.peak[MemoryCategory::kOptimizer] / (2 * static_cast<std::int64_t>(masters)), 1);
}

}  // namespace
}  // namespace trireme
