#include "launcher/train/step_clock.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using std::chrono::milliseconds;

StepClock::TimePoint time_at(int ms) {
  return StepClock::TimePoint{} + std::chrono::hours(1) + milliseconds(ms);
}

TEST(StepClock, AStepThatIsReadAtOnce) {
  StepClock clock;
  clock.begin(time_at(0));
  EXPECT_EQ(clock.end_ms(time_at(100)), 100);
  clock.begin(time_at(500));  // after an evaluation
  EXPECT_EQ(clock.end_ms(time_at(620)), 120);
}

// The device takes 100 ms a step. Its queue is full, so the host needs as long to enqueue a step. The last
// step is read at once.
TEST(StepClock, TimeInAFullQueueCountsOnce) {
  StepClock clock;
  clock.begin(time_at(0));   // enqueued at 90
  clock.begin(time_at(90));  // enqueued at 190, after the device has begun it at 100
  EXPECT_EQ(clock.end_ms(time_at(190), 100), 100);
  clock.begin(time_at(190));  // enqueued at 290
  EXPECT_EQ(clock.end_ms(time_at(290), 100), 100);
  EXPECT_EQ(clock.end_ms(time_at(300), 100), 100);
  clock.begin(time_at(2000));
  EXPECT_EQ(clock.end_ms(time_at(2100), 100), 100);
}

// The device waits for the host between steps.
TEST(StepClock, TheHostsTimeCountsWhereItIsLonger) {
  StepClock clock;
  clock.begin(time_at(0));
  clock.begin(time_at(30));
  EXPECT_EQ(clock.end_ms(time_at(60), 20), 20);
  clock.begin(time_at(60));
  EXPECT_EQ(clock.end_ms(time_at(90), 20), 30);
}

// Steps that the device does not time, as recorded ones, are read when they end: enqueueing takes no time.
TEST(StepClock, WithoutTheDevicesTime) {
  StepClock clock;
  clock.begin(time_at(0));
  clock.begin(time_at(1));
  EXPECT_EQ(clock.end_ms(time_at(100)), 100);
  clock.begin(time_at(100));
  EXPECT_EQ(clock.end_ms(time_at(200)), 100);
  EXPECT_EQ(clock.end_ms(time_at(300)), 100);
}

TEST(StepClock, WorkBesideAStepIsLeftOut) {
  StepClock clock;
  clock.begin(time_at(0));
  clock.begin(time_at(100));
  clock.exclude(milliseconds(50));  // from 120 to 170
  EXPECT_EQ(clock.end_ms(time_at(180)), 130);
  EXPECT_EQ(clock.end_ms(time_at(280)), 100);
}

}  // namespace
}  // namespace trireme
