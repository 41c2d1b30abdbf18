#include "launcher/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "launcher/report/evaluation_report.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const Progress::TimePoint kStart{};

StepMetrics at_step(std::int64_t step) {
  return {.step = step, .loss = 2.34567, .lr = 1e-3, .throughput = 12345};
}

std::string progress_output(const std::function<void()>& print) {
  ::testing::internal::CaptureStdout();
  print();
  return ::testing::internal::GetCapturedStdout();
}

TEST(Progress, PlainLinesEveryFewSteps) {
  Progress progress({.num_steps = 25, .log_every = 10}, kStart);
  const std::string out = progress_output([&] {
    for (std::int64_t step = 1; step <= 25; ++step) progress.step(at_step(step), kStart + seconds(step));
    progress.finish();
  });
  EXPECT_EQ(out,
            "step 1/25  loss 2.3457  lr 0.001  12.3k tokens/s  ETA 24s\n"
            "step 10/25  loss 2.3457  lr 0.001  12.3k tokens/s  ETA 15s\n"
            "step 20/25  loss 2.3457  lr 0.001  12.3k tokens/s  ETA 5s\n"
            "step 25/25  loss 2.3457  lr 0.001  12.3k tokens/s  ETA 0s\n");
}

TEST(Progress, PhasesAndTheSlowestRankAtWill) {
  StepMetrics metrics = at_step(1);
  metrics.step_ms = 200;
  const StepPhases measured{
      .forward_s = 0.05, .backward_s = 0.1, .exchange_s = 0.03, .optimizer_s = 0.01, .waited_s = 0.02};
  metrics.phases = phases_of_step(measured, 0.01, 0, 7);  // a checkpoint is not part of the step
  metrics.rank_times = RankTimes({10, 11, 12.5, 10});
  EXPECT_EQ(describe_phases(metrics), "data 5 % fwd 25 % bwd 50 % comm 15 % opt 5 %, rank 2 +2.50 ms");
  for (const bool shown : {false, true}) {
    Progress progress({.num_steps = 2, .phases = shown}, kStart);
    const std::string out = progress_output([&] { progress.step(metrics, kStart + seconds(1)); });
    EXPECT_EQ(out.find("fwd 25 %") != std::string::npos, shown) << out;
  }
  // Most phases of a recorded step are unknown.
  metrics.phases = phases_of_step({}, 0.01, 0, 0);
  metrics.rank_times = {};
  EXPECT_EQ(describe_phases(metrics), "data 5 %");
}

TEST(Progress, ATenthOfTheNoiseWithoutASampleIsADash) {
  EvalMetrics metrics;
  metrics.loss = 1.25;
  metrics.noise_bands = {0.5, std::numeric_limits<double>::quiet_NaN(), 2.0};
  EXPECT_EQ(describe_eval(metrics), "loss 1.2500  by tenth of the noise 0.5000 - 2.0000");
}

TEST(Progress, ResumedRunsCountTheirOwnSteps) {
  Progress progress({.first_step = 101, .num_steps = 200, .log_every = 1}, kStart);
  EXPECT_THAT(progress_output([&] { progress.step(at_step(110), kStart + seconds(20)); }),
              HasSubstr("ETA 3m 00s"));
}

TEST(Progress, TerminalLineIsRefreshed) {
  Progress progress({.num_steps = 1000, .terminal = true}, kStart);
  const std::string text = progress_output([&] {
    progress.step(at_step(1), kStart);
    progress.step(at_step(2), kStart + milliseconds(1));  // too soon after the last refresh
    StepMetrics skipped = at_step(3);
    skipped.skipped = true;
    progress.step(skipped, kStart + milliseconds(200));
    progress.step(at_step(4), kStart + milliseconds(400));
  });
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.find("step 2/"), std::string::npos);
  // The shorter line overwrites the longer one completely.
  const auto third = text.find("\rstep 3/"), fourth = text.find("\rstep 4/");
  ASSERT_NE(third, std::string::npos);
  ASSERT_NE(fourth, std::string::npos);
  EXPECT_GE(text.size() - fourth, fourth - third);

  EXPECT_EQ(progress_output([&] {
              progress.eval(4, {.loss = 1.25});
              progress.finish();
            }),
            "\nstep 4/1000  eval loss 1.2500\n");  // no empty line after it
}

TEST(Progress, LastStepIsAlwaysShown) {
  Progress progress({.num_steps = 2, .terminal = true}, kStart);
  const std::string out = progress_output([&] {
    progress.step(at_step(1), kStart);
    progress.step(at_step(2), kStart + milliseconds(1));
    progress.finish();
  });
  EXPECT_THAT(out, HasSubstr("step 2/2"));
  EXPECT_TRUE(out.ends_with("\n"));
}

TEST(Progress, Formats) {
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(59.6), "1m 00s");
  EXPECT_EQ(format_duration(3723), "1h 02m 03s");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_rate(950.4), "950");
  EXPECT_EQ(format_rate(12345), "12.3k");
  EXPECT_EQ(format_rate(1234567), "1.23M");
}

}  // namespace
}  // namespace trireme
