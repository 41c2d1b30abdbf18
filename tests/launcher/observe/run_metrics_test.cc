#include "launcher/observe/run_metrics.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

RunFacts facts() {
  return {.run = "r", .resume_step = 4, .num_steps = 10, .samples_per_step = 8, .targets_per_step = 128};
}

/// The value of a sample, as it is written; empty: there is none.
std::string value_of(const std::string& text, const std::string& sample) {
  const std::string start = "\n" + sample + " ";
  const auto found = text.find(start);
  if (found == std::string::npos) return "";
  const auto begin = found + start.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(RunMetrics, BeforeTheFirstStepNothingIsInvented) {
  const std::string text = RunMetrics(facts(), 100).text(101);
  EXPECT_EQ(value_of(text, "trireme_step{run=\"r\"}"), "4");
  EXPECT_EQ(value_of(text, "trireme_steps_total{run=\"r\"}"), "0");
  for (const char* name : {"trireme_loss", "trireme_last_step_", "trireme_eval_", "trireme_last_checkpoint_",
                           "trireme_restarts_", "trireme_memory_limit_bytes"}) {
    EXPECT_EQ(text.find(name), std::string::npos) << name;
  }
}

TEST(RunMetrics, StepsAreSummedUp) {
  RunMetrics metrics(facts(), 100);
  metrics.step({.step = 5, .loss = 2, .skipped = true, .step_ms = 300, .data_wait_ms = 10, .comm_bytes = 7},
               101);
  metrics.step({.step = 6, .loss = 1.5, .step_ms = 200, .data_wait_ms = 30, .comm_bytes = 7}, 102);
  const std::string text = metrics.text(110);
  EXPECT_EQ(value_of(text, "trireme_step{run=\"r\"}"), "6");
  EXPECT_EQ(value_of(text, "trireme_steps_total{run=\"r\"}"), "2");
  EXPECT_EQ(value_of(text, "trireme_samples_total{run=\"r\"}"), "16");
  EXPECT_EQ(value_of(text, "trireme_tokens_total{run=\"r\"}"), "256");
  EXPECT_EQ(value_of(text, "trireme_loss{run=\"r\"}"), "1.5");
  EXPECT_EQ(value_of(text, "trireme_skipped_steps_total{run=\"r\"}"), "1");
  EXPECT_EQ(value_of(text, "trireme_consecutive_skipped_steps{run=\"r\"}"), "0");
  EXPECT_EQ(value_of(text, "trireme_sent_bytes_total{run=\"r\"}"), "14");
  EXPECT_EQ(value_of(text, "trireme_phase_seconds_total{run=\"r\",phase=\"data_wait\"}"), "0.04");
  EXPECT_EQ(value_of(text, "trireme_last_step_timestamp_seconds{run=\"r\"}"), "102");
  EXPECT_EQ(value_of(text, "trireme_goodput_ratio{run=\"r\"}"), "0.05");
}

TEST(RunMetrics, GoodputCountsFromTheFirstStart) {
  RunFacts with_restarts = facts();
  with_restarts.restarts = {.count = 2, .began_s = 60, .useful_seconds = 19.5};
  RunMetrics metrics(with_restarts, 100);
  metrics.step({.step = 5, .step_ms = 500}, 105);
  const std::string text = metrics.text(110);
  EXPECT_EQ(value_of(text, "trireme_restarts_total{run=\"r\"}"), "2");
  EXPECT_EQ(value_of(text, "trireme_useful_seconds{run=\"r\"}"), "20");
  EXPECT_EQ(value_of(text, "trireme_wall_seconds{run=\"r\"}"), "50");
  EXPECT_EQ(value_of(text, "trireme_goodput_ratio{run=\"r\"}"), "0.4");
}

TEST(RunMetrics, PhasesThatADeviceDoesNotMeasureAreLeftOut) {
  RunFacts gpu = facts();
  gpu.knows_exposed_comm = false;
  RunMetrics metrics(gpu, 0);
  metrics.step({.step = 5, .step_ms = 1}, 1);
  EXPECT_EQ(metrics.text(2).find("exposed_communication\""), std::string::npos);
}

TEST(RunMetrics, CheckpointsEvaluationsAndTheEnd) {
  RunMetrics metrics(facts(), 0);
  metrics.eval(5, {.loss = 3, .top1 = 0.25}, 2);
  metrics.checkpoint(5, 0.5, 70);
  std::string text = metrics.text(80);
  EXPECT_EQ(value_of(text, "trireme_eval_accuracy_ratio{run=\"r\",top=\"1\"}"), "0.25");
  EXPECT_EQ(value_of(text, "trireme_phase_seconds_total{run=\"r\",phase=\"evaluation\"}"), "2");
  EXPECT_EQ(value_of(text, "trireme_last_checkpoint_timestamp_seconds{run=\"r\"}"), "70");
  EXPECT_EQ(value_of(text, "trireme_last_checkpoint_save_seconds{run=\"r\"}"), "0.5");
  EXPECT_EQ(value_of(text, "trireme_running{run=\"r\"}"), "1");
  metrics.finish();
  text = metrics.text(81);
  EXPECT_EQ(value_of(text, "trireme_running{run=\"r\"}"), "0");
}

}  // namespace
}  // namespace trireme
