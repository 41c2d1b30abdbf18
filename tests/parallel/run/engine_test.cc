#include "parallel/run/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

struct Outcome {
  std::vector<float> losses, norms;
  std::vector<std::vector<float>> masters;
  float eval_loss = 0;
  bool operator==(const Outcome&) const = default;
};

struct LayoutCase {
  int ranks = 1;
  int threads = 1;
  std::int64_t micro_batch = 2;
  Reduction reduction = Reduction::kCanonical;
};

// 4 steps of a tiny GPT on `layout.ranks` threads; the outcome of every rank must be the same.
Outcome train(const LayoutCase& layout, std::int64_t global_batch, float dropout = 0.0f,
              OptimizerConfig::Kind kind = OptimizerConfig::Kind::kAdamW) {
  std::map<int, Outcome> outcomes;
  std::mutex mutex;
  run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    GptConfig config = testing::tiny_gpt_config();
    config.dropout = dropout;
    Engine engine(build_gpt(config), comm,
                  {.threads = layout.threads,
                   .global_batch = global_batch,
                   .micro_batch = layout.micro_batch,
                   .seed = 5,
                   .optimizer = {.kind = kind,
                                 .weight_decay = 0.1f,
                                 .momentum = kind == OptimizerConfig::Kind::kSgd ? 0.9f : 0.0f},
                   .grad_clip = 0.5f,
                   .reduction = layout.reduction});
    Outcome outcome;
    for (int step = 0; step < 4; ++step) {
      const StepResult result =
          engine.step(testing::token_source(config.vocab, config.seq_len, step * global_batch),
                      global_batch * config.seq_len, 1e-2);
      outcome.losses.push_back(result.loss);
      outcome.norms.push_back(result.grad_norm);
    }
    for (std::size_t g = 0; g < engine.layout().groups.size(); ++g) {
      outcome.masters.push_back(engine.context().to_host(engine.parameters().master(static_cast<int>(g))));
    }
    outcome.eval_loss =
        engine.evaluate(testing::token_source(config.vocab, config.seq_len, 1000), 7, 7 * config.seq_len);
    const std::lock_guard lock(mutex);
    outcomes[comm->rank()] = std::move(outcome);
  });
  for (const auto& [rank, outcome] : outcomes) EXPECT_TRUE(outcome == outcomes.at(0)) << "rank " << rank;
  return outcomes.at(0);
}

TEST(Engine, LearnsAndReportsWhatItDid) {
  const Outcome outcome = train({}, 8);
  EXPECT_NEAR(outcome.losses.front(), std::log(61.0f), 0.2f);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front());
  for (const float norm : outcome.norms) EXPECT_GT(norm, 0.0f);
}

TEST(Engine, SameBitsForEveryNumberOfRanksAndThreads) {
  const Outcome one = train({.ranks = 1}, 16, 0.1f);
  EXPECT_TRUE(one == train({.ranks = 1, .threads = 2}, 16, 0.1f));
  EXPECT_TRUE(one == train({.ranks = 2}, 16, 0.1f));
  EXPECT_TRUE(one == train({.ranks = 4}, 16, 0.1f));
  EXPECT_TRUE(one == train({.ranks = 8}, 16, 0.1f));
}

TEST(Engine, SameBitsWhereCountsAreNoPowersOfTwo) {
  const Outcome one = train({.ranks = 1, .micro_batch = 1}, 12);
  EXPECT_TRUE(one == train({.ranks = 2, .micro_batch = 1}, 12));
  EXPECT_TRUE(one == train({.ranks = 3, .micro_batch = 1}, 12));
  EXPECT_TRUE(one == train({.ranks = 4, .micro_batch = 1}, 12));
  EXPECT_TRUE(one == train({.ranks = 6, .micro_batch = 1}, 12));
}

TEST(Engine, SgdToo) {
  const Outcome one = train({.ranks = 1}, 8, 0.0f, OptimizerConfig::Kind::kSgd);
  EXPECT_TRUE(one == train({.ranks = 4}, 8, 0.0f, OptimizerConfig::Kind::kSgd));
}

TEST(Engine, FastReductionAgreesUpToRounding) {
  const Outcome canonical = train({.ranks = 2}, 16);
  const Outcome fast = train({.ranks = 2, .reduction = Reduction::kFast}, 16);
  for (std::size_t i = 0; i < canonical.losses.size(); ++i) {
    EXPECT_NEAR(canonical.losses[i], fast.losses[i], 1e-4f * canonical.losses[i]);
  }
}

TEST(Engine, RefusesABatchThatDoesNotDivide) {
  try {
    train({.ranks = 2, .micro_batch = 3}, 16);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("global_batch = 15 or 18"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace trireme
