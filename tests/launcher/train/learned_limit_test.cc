#include "launcher/train/learned_limit.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(LearnedLimit, IsKnownAfterEnoughStepsWithoutTheFirst) {
  LearnedLimit limit;
  limit.add(100.0);
  for (std::size_t i = 0; i < kStepRule.enough; ++i) {
    EXPECT_FALSE(limit.limit_s());
    limit.add(0.5);
  }
  EXPECT_EQ(limit.longest_s(), 0.5);
  EXPECT_EQ(limit.limit_s(), 1.0 + kStepRule.margin_s);
}

TEST(LearnedLimit, FollowsTheLongestOfTheLastSteps) {
  LearnedLimit limit;
  for (int i = 0; i < 20; ++i) limit.add(1.0);
  limit.add(4.0);
  for (std::size_t i = 1; i < LearnedLimit::kWindow; ++i) {
    EXPECT_EQ(limit.longest_s(), 4.0);
    limit.add(2.0);
  }
  EXPECT_EQ(limit.longest_s(), 4.0);
  limit.add(2.0);
  EXPECT_EQ(limit.longest_s(), 2.0);
}

// The others wait for a rank that stops right after a report one step later: three steps and two seconds.
TEST(LearnedLimit, NamesAStoppedRankInThreeStepsAndTwoSeconds) {
  for (const double step : {0.001, 0.05, 1.0, 60.0}) {
    LearnedLimit limit;
    for (int i = 0; i < 20; ++i) limit.add(step);
    constexpr double kPoll = 0.25;  // the watchdog's
    EXPECT_LT(step + *limit.limit_s() + kPoll, 3 * step + 2);
  }
}

TEST(LearnedLimit, OfFewAndLongOnesIsKnownSoonAndHasMoreRoom) {
  LearnedLimit evaluations(kEvaluationRule), checkpoints(kCheckpointRule);
  for (LearnedLimit* limit : {&evaluations, &checkpoints}) {
    for (const double seconds : {9.0, 2.0}) limit->add(seconds);
    EXPECT_FALSE(limit->limit_s());
    limit->add(3.0);
  }
  EXPECT_EQ(evaluations.limit_s(), 2 * 3.0 + 5);
  EXPECT_EQ(checkpoints.limit_s(), 10 * 3.0 + 60);
}

}  // namespace
}  // namespace trireme
