#include "launcher/report/progress_lines.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ProgressLines, ASharesTextHasThePercentageAndTheTimeLeft) {
  EXPECT_EQ(share_text("writing", 0.25, 10), "writing: 25 %, about 30 s left");
  EXPECT_EQ(share_text("writing", 0.5, 600), "writing: 50 %, about 10 min left");
  EXPECT_EQ(share_text("writing", 0, 10), "writing: 0 %");  // no rate is known yet
  EXPECT_EQ(share_text("writing", 1, 10), "writing: 100 %");
}

TEST(ProgressLines, ShortWorkPrintsNothing) {
  testing::internal::CaptureStderr();
  const TellShare shares = share_lines();
  for (int i = 0; i < 1000; ++i) shares("counting", i / 1e3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace trireme
