#include "launcher/supervise/decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace trireme {
namespace {

using Kind = Decision::Kind;

Attempt ended(int exit_code, std::int64_t step) {
  return {.num_ranks = 2, .end = Attempt::End{.exit_code = exit_code, .step = step}};
}

TEST(Decision, FollowsFromTheExitCode) {
  EXPECT_EQ(decide({ended(0, 41)}, {}).kind, Kind::kDone);
  EXPECT_EQ(decide({ended(2, 1)}, {}).kind, Kind::kGiveUp);
  EXPECT_EQ(decide({ended(137, 7)}, {}).kind, Kind::kRestart);
  EXPECT_EQ(decide({ended(75, 7)}, {}).kind, Kind::kRestart);
  EXPECT_EQ(decide({ended(75, 7)}, {.stop_requested = true}).kind, Kind::kStopped);
  EXPECT_EQ(decide({ended(137, 7)}, {.stop_requested = true}).kind, Kind::kStopped);
  EXPECT_EQ(decide({ended(0, 41)}, {.stop_requested = true}).kind, Kind::kDone);
}

TEST(Decision, ThreeFailuresInARowAtOneStepAreEnough) {
  const std::vector<Attempt> three = {ended(137, 7), ended(1, 7), ended(139, 7)};
  EXPECT_EQ(decide(three, {}).kind, Kind::kGiveUp);
  EXPECT_NE(decide(three, {}).reason.find("step 7"), std::string::npos);
  EXPECT_EQ(decide({ended(137, 7), ended(1, 8), ended(139, 7)}, {}).kind, Kind::kRestart);
  EXPECT_EQ(decide({ended(137, 7), ended(75, 7), ended(1, 7), ended(139, 7)}, {}).kind, Kind::kRestart);
}

TEST(Decision, ARunWithoutAnUpdateIsNotRepeated) {
  Attempt attempt = ended(1, 12);
  EXPECT_EQ(decide({attempt}, {}).kind, Kind::kRestart);
  attempt.end->code = ErrorCode::kNoProgress;
  EXPECT_EQ(decide({attempt}, {}).kind, Kind::kGiveUp);
  EXPECT_THAT(decide({attempt}, {}).reason, ::testing::HasSubstr("no step of the job made an update"));
}

TEST(Decision, AnAttemptWhoseSupervisorDiedSaysNothingOfTheStep) {
  const Attempt orphan{.num_ranks = 2};
  EXPECT_EQ(num_failures_in_a_row({ended(137, 7), orphan, ended(1, 7)}), 2);
  EXPECT_EQ(num_failures_in_a_row({ended(137, 7), orphan}), 1);
  EXPECT_EQ(num_failures_in_a_row({orphan}), 0);
}

TEST(Decision, WaitsLongerWhereAStepFailsAgain) {
  EXPECT_EQ(decide({ended(75, 7)}, {}).delay.count(), 0);
  const auto first = decide({ended(137, 7)}, {}).delay,
             second = decide({ended(137, 7), ended(137, 7)}, {}).delay;
  EXPECT_GT(first.count(), 0);
  EXPECT_EQ(second, 2 * first);
  EXPECT_EQ(decide({ended(137, 7), ended(137, 9)}, {}).delay, first);
}

TEST(Decision, AFullDiskIsNoFaultOfTheStep) {
  const auto full = [](std::int64_t step) {
    Attempt attempt = ended(1, step);
    attempt.end->system_error = ENOSPC;
    return attempt;
  };
  std::vector<Attempt> attempts;
  std::vector<std::int64_t> delays_s;
  for (int i = 0; i < 8; ++i) {
    attempts.push_back(full(7));
    const Decision decision = decide(attempts, {});
    EXPECT_EQ(decision.kind, Kind::kRestart);
    delays_s.push_back(decision.delay.count() / 1000);
  }
  EXPECT_EQ(delays_s, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 60, 60}));
  EXPECT_EQ(decide(attempts, {.max_restarts = 7}).kind, Kind::kGiveUp);
  EXPECT_EQ(num_failures_in_a_row({ended(1, 7), full(7), ended(1, 7)}), 2);
  EXPECT_EQ(decide({full(7), ended(75, 9), full(9)}, {}).delay.count(), 1000);
}

TEST(Decision, RestartsAreCounted) {
  const std::vector<Attempt> attempts = {ended(137, 7), ended(137, 8), ended(137, 9)};
  EXPECT_EQ(decide(attempts, {.max_restarts = 3}).kind, Kind::kRestart);
  EXPECT_EQ(decide(attempts, {.max_restarts = 2}).kind, Kind::kGiveUp);
  EXPECT_EQ(decide({ended(137, 7)}, {.max_restarts = 0}).kind, Kind::kGiveUp);
}

}  // namespace
}  // namespace trireme
