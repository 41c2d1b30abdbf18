#include "launcher/train/time_limit.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Seconds = TimeLimit::Seconds;

TEST(TimeLimit, NoneIsNeverUp) {
  TimeLimit limit(0);
  EXPECT_FALSE(limit.is_up(Seconds(1e9)));
}

// Ten minutes, steps of ten seconds. There is no checkpoint yet, so half a minute is reserved for one.
TEST(TimeLimit, TwoStepsAndACheckpointStillFit) {
  TimeLimit limit(10);
  for (int s = 10; s < 550; s += 10) EXPECT_FALSE(limit.is_up(Seconds(s))) << s;
  EXPECT_TRUE(limit.is_up(Seconds(550)));
}

TEST(TimeLimit, ASlowCheckpointIsRemembered) {
  TimeLimit limit(10);
  limit.saved(Seconds(100));
  limit.saved(Seconds(1));
  for (int s = 10; s < 380; s += 10) EXPECT_FALSE(limit.is_up(Seconds(s))) << s;
  EXPECT_TRUE(limit.is_up(Seconds(380)));
}

TEST(TimeLimit, ASlowStepIsRemembered) {
  TimeLimit limit(10);
  limit.saved(Seconds(1));
  EXPECT_FALSE(limit.is_up(Seconds(190)));  // the last step took this long
  EXPECT_FALSE(limit.is_up(Seconds(217)));
  EXPECT_TRUE(limit.is_up(Seconds(218)));  // two more steps and two checkpoints would end at 600
}

TEST(TimeLimit, ALongLimitKeepsAMinuteAtMost) {
  TimeLimit limit(24 * 60);
  for (int s = 1; s < 86338; ++s) EXPECT_FALSE(limit.is_up(Seconds(s))) << s;
  EXPECT_TRUE(limit.is_up(Seconds(86338)));
}

}  // namespace
}  // namespace trireme
