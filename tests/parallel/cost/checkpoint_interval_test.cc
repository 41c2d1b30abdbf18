#include "parallel/cost/checkpoint_interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

TEST(CheckpointInterval, YoungIsTheSquareRoot) {
  EXPECT_DOUBLE_EQ(young_interval_s(50, 100 * 3600), std::sqrt(2 * 50.0 * 360000));  // 6000 s
  EXPECT_DOUBLE_EQ(young_interval_s(50, 100 * 3600), 6000);
  EXPECT_THROW(young_interval_s(0, 1), Error);
}

// Compares with the minimum of Daly's complete model, found by search.
TEST(CheckpointInterval, DalyIsNearTheLeastOfTheModel) {
  for (const double save_s : {1.0, 30.0, 300.0, 1500.0}) {
    const double mtbf_s = 3600;
    double least = 1e300, best = 0;
    for (double interval = 5; interval < 3 * mtbf_s; interval += 1) {
      const double s = expected_run_s(
          {.work_s = 1e5, .interval_s = interval, .save_s = save_s, .restart_s = 60, .mtbf_s = mtbf_s});
      if (s < least) {
        least = s;
        best = interval;
      }
    }
    const double daly = daly_interval_s(save_s, mtbf_s), young = young_interval_s(save_s, mtbf_s);
    EXPECT_NEAR(daly, best, 0.02 * best + 1) << save_s;
    EXPECT_LT(std::abs(daly - best), std::abs(young - best)) << save_s;
  }
  EXPECT_DOUBLE_EQ(daly_interval_s(7200, 3600), 3600);
}

}  // namespace
}  // namespace trireme
