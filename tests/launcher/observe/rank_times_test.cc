#include "launcher/observe/rank_times.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(RankTimes, TheSlowestIsAboveTheMedianOfTheOthers) {
  const RankTimes four({10, 12, 30.5, 11});
  EXPECT_EQ(four.slowest(), 2);
  EXPECT_EQ(four.excess_ms(), 19.5);
  const RankTimes three({10, 14, 13});
  EXPECT_EQ(three.slowest(), 1);
  EXPECT_EQ(three.excess_ms(), 2.5);  // above 11.5, the mean of 10 and 13
  const RankTimes two({7.0001, 7.5});
  EXPECT_EQ(two.busy_ms(), (std::vector<double>{7, 7.5}));
  EXPECT_EQ(two.excess_ms(), 0.5);
}

TEST(RankTimes, EqualOnesHaveNoExcess) {
  EXPECT_EQ(RankTimes({5, 5, 5}).excess_ms(), 0);
  EXPECT_EQ(RankTimes({5, 5, 5}).slowest(), 0);
}

TEST(RankTimes, OneRankIsNotCompared) {
  EXPECT_FALSE(RankTimes().known());
  EXPECT_FALSE(RankTimes({3}).known());
}

TEST(RankTimes, ManyAreNotListed) {
  const RankTimes most(std::vector<double>(RankTimes::kMaxListed, 1));
  const RankTimes more(std::vector<double>(RankTimes::kMaxListed + 1, 1));
  EXPECT_TRUE(most.is_listed());
  EXPECT_TRUE(more.known());
  EXPECT_FALSE(more.is_listed());
}

}  // namespace
}  // namespace trireme
