#include "launcher/train/run_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

class RunLogTest : public ::testing::Test {
 protected:
  RunLog::Options options(std::int64_t resume_step) {
    return {.out = {folder_.path()}, .resume_step = resume_step, .num_steps = 4, .log_every = 100};
  }
  json summary() { return json::parse(testing::read_file(folder_ / "summary.json")); }

  testing::TemporaryFolder folder_;
};

TEST_F(RunLogTest, SummaryOfARun) {
  RunLog log(options(0));
  for (std::int64_t step = 1; step <= 4; ++step) {
    StepMetrics metrics{.step = step,
                        .loss = 5.0 - static_cast<double>(step),
                        .step_ms = step == 1 ? 500.0 : 10.0,
                        .throughput = step == 1 ? 20.0 : 1000.0,
                        .memory = {.rank = step == 2 ? 3 : 1, .peak_bytes = step == 2 ? 900 : 800}};
    metrics.memory.peak[MemoryCategory::kBatch] = step == 3 ? 70 : 60;
    log.step(metrics);
  }
  log.eval(4, {.loss = 1.5}, /*seconds=*/0.1);
  log.finish("done", "abc", 3);
  EXPECT_EQ(summary()["steps"], 4);
  EXPECT_EQ(summary()["updates"], 3);
  EXPECT_EQ(summary()["first_step"], 1);
  EXPECT_EQ(summary()["loss"], 1.0);
  EXPECT_EQ(summary()["eval_loss"], 1.5);
  EXPECT_EQ(summary()["state_hash"], "abc");
  EXPECT_EQ(summary()["peak_bytes"], 900);
  EXPECT_EQ(summary()["peak_rank"], 3);
  EXPECT_EQ(summary()["memory"]["batch"], 70);
  // The first step fills caches and is not counted.
  EXPECT_DOUBLE_EQ(summary()["step_ms"].get<double>(), 10.0);
  EXPECT_DOUBLE_EQ(summary()["tokens_per_s"].get<double>(), 1000.0);
}

TEST_F(RunLogTest, ACompleteRunKeepsItsFigures) {
  {
    RunLog log(options(3));
    log.step({.step = 4, .loss = 2.0, .step_ms = 12.5, .throughput = 10});
    log.finish("done", "abc", 4);
  }
  {
    RunLog again(options(4));
    again.finish("done", "abc", 4);
  }
  EXPECT_EQ(summary()["step_ms"], 12.5);
  EXPECT_EQ(summary()["first_step"], 4);
  {
    RunLog other_state(options(4));
    other_state.finish("done", "xyz", 4);
  }
  EXPECT_EQ(summary()["state_hash"], "xyz");
  testing::write_file(folder_ / "summary.json", "{");
  RunLog(options(4)).finish("done", "xyz", 4);
  EXPECT_EQ(summary()["steps"], 4);
}

}  // namespace
}  // namespace trireme
