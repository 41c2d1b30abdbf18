#include "launcher/observe/run_metrics.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <tuple>

namespace trireme {
namespace {

RunFacts facts() {
  return {.run = "r", .resume_step = 4, .num_steps = 10, .samples_per_step = 8, .targets_per_step = 128};
}

/// The value of a sample as text; empty if there is none.
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
  PhaseSeconds phases;
  phases[Phase::kDataWait] = 0.01;
  metrics.step({.step = 5, .loss = 2, .skipped = true, .step_ms = 300, .phases = phases, .comm_bytes = 7},
               101);
  phases[Phase::kDataWait] = 0.03;
  metrics.step({.step = 6, .loss = 1.5, .step_ms = 200, .phases = phases, .comm_bytes = 7}, 102);
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
  RunMetrics metrics(facts(), 0);
  metrics.step({.step = 5, .step_ms = 1, .phases = phases_of_step({}, 0.25, 0, 0)}, 1);
  EXPECT_EQ(value_of(metrics.text(2), "trireme_phase_seconds_total{run=\"r\",phase=\"data_wait\"}"), "0.25");
  EXPECT_EQ(metrics.text(2).find("phase=\"forward\""), std::string::npos);
  EXPECT_EQ(metrics.text(2).find("trireme_slowest_rank"), std::string::npos);
}

TEST(RunMetrics, PhasesOfAStep) {
  const StepPhases engine{
      .data_wait_s = 9, .forward_s = 0.5, .backward_s = 1, .exchange_s = 0.25, .optimizer_s = 2};
  RunMetrics metrics(facts(), 0);
  metrics.checkpoint(4, 3, 0.5);
  for (const double checkpoint_s : {3.0, 0.0}) {
    metrics.step({.step = 5, .step_ms = 1, .phases = phases_of_step(engine, 0.125, 0.25, checkpoint_s)}, 1);
  }
  const std::string text = metrics.text(2);
  for (const auto& [phase, sum, last] : {std::tuple{"data_wait", "0.25", "0.125"},
                                         {"forward", "1", "0.5"},
                                         {"backward", "2", "1"},
                                         {"exchange", "1", "0.5"},
                                         {"optimizer", "4", "2"},
                                         {"checkpoint", "3", "0"}}) {
    const std::string labels = fmt::format("{{run=\"r\",phase=\"{}\"}}", phase);
    EXPECT_EQ(value_of(text, "trireme_phase_seconds_total" + labels), sum);
    EXPECT_EQ(value_of(text, "trireme_last_step_phase_seconds" + labels), last);
  }
}

TEST(RunMetrics, RatesAndRanks) {
  RunFacts with_peak = facts();
  with_peak.peak_flops = 4e12;
  with_peak.sent_by_axis = {{"data", 10}};
  RunMetrics metrics(with_peak, 0);
  metrics.step({.step = 5, .step_ms = 1, .rank_times = RankTimes({2, 5}), .flops_per_s = 1e12, .mfu = 0.25},
               1);
  metrics.step({.step = 6, .step_ms = 1, .rank_times = RankTimes({4, 3}), .flops_per_s = 2e12, .mfu = 0.5},
               2);
  const std::string text = metrics.text(2);
  EXPECT_EQ(value_of(text, "trireme_model_flops_per_second{run=\"r\"}"), "2000000000000");
  EXPECT_EQ(value_of(text, "trireme_peak_flops_per_second{run=\"r\"}"), "4000000000000");
  EXPECT_EQ(value_of(text, "trireme_mfu_ratio{run=\"r\"}"), "0.5");
  EXPECT_EQ(value_of(text, "trireme_slowest_rank{run=\"r\"}"), "0");
  EXPECT_EQ(value_of(text, "trireme_slowest_rank_excess_seconds{run=\"r\"}"), "0.001");
  metrics.step({.step = 7, .step_ms = 1, .flops_per_s = 8e12}, 3);
  const std::string above = metrics.text(3);
  EXPECT_EQ(above.find("trireme_peak_flops"), std::string::npos) << "a peak that a step has exceeded is none";
  EXPECT_EQ(above.find("trireme_mfu"), std::string::npos);
  EXPECT_EQ(value_of(text, "trireme_rank_busy_seconds{run=\"r\",rank=\"1\"}"), "0.003");
  EXPECT_EQ(value_of(text, "trireme_axis_sent_bytes_total{run=\"r\",axis=\"data\"}"), "20");
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
