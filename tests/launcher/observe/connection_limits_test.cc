#include "launcher/observe/connection_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ConnectionLimits::Time kStart{};

TEST(ConnectionLimits, WhoSaysNothingHasLessTimeThanWhoReads) {
  ConnectionLimits limits(10, milliseconds(20000));
  limits.began(1, kStart);
  limits.began(2, kStart);
  limits.asked(2, kStart);
  EXPECT_THAT(limits.overdue(kStart + ConnectionLimits::kSilent), IsEmpty());
  EXPECT_THAT(limits.overdue(kStart + ConnectionLimits::kSilent + milliseconds(1)), ElementsAre(1));
  EXPECT_THAT(limits.overdue(kStart + milliseconds(20001)), ElementsAre(1, 2));
  limits.ended(1);
  EXPECT_THAT(limits.overdue(kStart + milliseconds(20000)), IsEmpty());
}

TEST(ConnectionLimits, TimeOfAnAnswerBeginsWithItsRequest) {
  ConnectionLimits limits(10, milliseconds(5000));
  limits.began(1, kStart);
  limits.asked(1, kStart + milliseconds(4000));
  EXPECT_THAT(limits.overdue(kStart + milliseconds(9000)), IsEmpty());
  EXPECT_THAT(limits.overdue(kStart + milliseconds(9001)), ElementsAre(1));
}

TEST(ConnectionLimits, ACrowdMakesRoomAtOnce) {
  ConnectionLimits limits(3, milliseconds(20000));
  for (const int fd : {1, 2, 3}) limits.began(fd, kStart);
  limits.asked(3, kStart);
  EXPECT_TRUE(limits.is_crowded());
  EXPECT_THAT(limits.overdue(kStart + ConnectionLimits::kCrowdedSilent), IsEmpty());
  EXPECT_THAT(limits.overdue(kStart + milliseconds(51)), ElementsAre(1, 2));
  // Slow readers are closed only if nobody is silent.
  EXPECT_THAT(limits.overdue(kStart + milliseconds(1001)), ElementsAre(1, 2));
  limits.asked(1, kStart + milliseconds(900));
  limits.asked(2, kStart + milliseconds(900));
  EXPECT_THAT(limits.overdue(kStart + milliseconds(1001)), ElementsAre(3));
  limits.ended(2);
  EXPECT_FALSE(limits.is_crowded());
  EXPECT_THAT(limits.overdue(kStart + milliseconds(1001)), IsEmpty());
}

}  // namespace
}  // namespace trireme
