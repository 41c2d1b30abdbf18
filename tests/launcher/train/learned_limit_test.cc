#include "launcher/train/learned_limit.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(LearnedLimit, IsKnownAfterEnoughStepsWithoutTheFirst) {
  LearnedLimit limit;
  limit.add_step(100.0);
  for (std::size_t i = 0; i < LearnedLimit::kEnough; ++i) {
    EXPECT_FALSE(limit.limit_s());
    limit.add_step(0.5);
  }
  EXPECT_EQ(limit.longest_step_s(), 0.5);
  EXPECT_EQ(limit.limit_s(), 1.0 + LearnedLimit::kMargin_s);
}

TEST(LearnedLimit, FollowsTheLongestOfTheLastSteps) {
  LearnedLimit limit;
  for (int i = 0; i < 20; ++i) limit.add_step(1.0);
  limit.add_step(4.0);
  for (std::size_t i = 1; i < LearnedLimit::kWindow; ++i) {
    EXPECT_EQ(limit.longest_step_s(), 4.0);
    limit.add_step(2.0);
  }
  EXPECT_EQ(limit.longest_step_s(), 4.0);
  limit.add_step(2.0);
  EXPECT_EQ(limit.longest_step_s(), 2.0);
}

// A rank that stops right after it has answered is waited for a step later: three steps and two seconds.
TEST(LearnedLimit, NamesAStoppedRankInThreeStepsAndTwoSeconds) {
  for (const double step : {0.001, 0.05, 1.0, 60.0}) {
    LearnedLimit limit;
    for (int i = 0; i < 20; ++i) limit.add_step(step);
    constexpr double kPoll = 0.25;  // of the watchdog
    EXPECT_LT(step + *limit.limit_s() + kPoll, 3 * step + 2);
  }
}

}  // namespace
}  // namespace trireme
