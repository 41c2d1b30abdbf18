#include "parallel/cost/run_simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/cost/checkpoint_interval.h"
#include "parallel/cost/rank_policy.h"
#include "parallel/cost/run_cost.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

SimulatedRun small_run() {
  return {.points = {{.num_ranks = 4, .step_s = 1}, {.num_ranks = 16, .step_s = 0.5}},
          .policy = fixed_ranks(0),
          .steps = 36000,
          .save_s = 20,
          .restart_s = 120};
}

TEST(RunSimulate, WithoutInterruptionsAStepTakesItsTime) {
  const RunOutcome outcome = simulate_runs(small_run(), 1, 3);
  EXPECT_NEAR(outcome.hours, 10 + 20.0 / 3600, 1e-9);  // one checkpoint, at the end
  EXPECT_NEAR(outcome.device_hours, 4 * outcome.hours, 1e-9);
  EXPECT_EQ(outcome.interruptions, 0);
  EXPECT_EQ(outcome.saves, 1);
  EXPECT_EQ(outcome.hours_low, outcome.hours_high);
}

TEST(RunSimulate, AgreesWithDalysModel) {
  SimulatedRun run = small_run();
  for (const double an_hour : {0.05, 0.25, 1.0}) {
    run.interruptions_per_hour = an_hour;
    const double mtbf_s = 3600 / (4 * an_hour);
    const double expected = expected_run_s({.work_s = 36000,
                                            .interval_s = save_interval_s(run, run.points[0]),
                                            .save_s = 20,
                                            .restart_s = 120,
                                            .mtbf_s = mtbf_s});
    const RunOutcome outcome = simulate_runs(run, 7, 2000);
    EXPECT_NEAR(outcome.hours, expected / 3600, 0.015 * outcome.hours) << an_hour;
    EXPECT_NEAR(outcome.interruptions, outcome.hours * 4 * an_hour, 0.05 * outcome.interruptions) << an_hour;
    EXPECT_LT(outcome.hours_low, outcome.hours);
    EXPECT_GT(outcome.hours_high, outcome.hours);
  }
}

TEST(RunSimulate, FollowsFromTheSeed) {
  SimulatedRun run = small_run();
  run.interruptions_per_hour = 0.2;
  const double hours = simulate_runs(run, 3).hours;
  EXPECT_EQ(hours, simulate_runs(run, 3).hours);
  EXPECT_NE(hours, simulate_runs(run, 4).hours);
}

TEST(RunSimulate, ARunThatCannotEndIsRefused) {
  SimulatedRun run = small_run();
  run.interruptions_per_hour = 3600;
  run.save_s = 1000;
  EXPECT_THAT([&] { simulate_runs(run, 1, 1); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("the run does not end")));
}

TEST(RankPolicy, GrowsWhereAPartEnds) {
  SimulatedRun run = small_run();
  run.save_s = 0;
  run.restart_s = 0;
  run.policy = growing_ranks({{.point = 0, .until = 0.5}, {.point = 1, .until = 1}});
  const RunOutcome outcome = simulate_runs(run, 1, 20);
  EXPECT_NEAR(outcome.hours, 5 + 2.5, 1e-6);
  EXPECT_NEAR(outcome.device_hours, 4 * 5 + 16 * 2.5, 1e-6);
  EXPECT_THROW(growing_ranks({{.point = 0, .until = 0.5}}), Error);
  EXPECT_THROW(growing_ranks({{.point = 0, .until = 0.5}, {.point = 1, .until = 0.4}}), Error);
}

TEST(RankPolicy, ScalesSoAsToEndInTime) {
  const std::vector<ScalePoint> points{{4, 1.0}, {8, 0.6}, {16, 0.4}};
  const RankPolicy policy = autoscaled_ranks(points, 3600, 4000, 0);
  EXPECT_EQ(policy(0, 0), 0u);       // 3600 s of work, 4000 s remain
  EXPECT_EQ(policy(0.5, 2500), 1u);  // 1500 s remain for 1800, 1080 or 720 s of work
  EXPECT_EQ(policy(0.5, 3200), 2u);  // 800 s remain
  EXPECT_EQ(policy(0.5, 3900), 2u);  // too late: the fastest
  EXPECT_EQ(policy(0.9, 3600), 0u);  // ahead again
}

TEST(RunCost, IsThatOfDevicesStorageAndNetwork) {
  const CostedRun run{.points = {{.num_ranks = 4, .step_s = 1}},
                      .policy = fixed_ranks(0),
                      .steps = 36000,
                      .checkpoint_gb = 10,
                      .kept_checkpoints = 2,
                      .save_s = 36};
  const ClusterCost prices{.storage_per_gb_month = 0.73,
                           .network_per_gb = 0.1,
                           .data_gb = 80,
                           .preemptible_discount = 0.7,
                           .interruptions_per_hour = 0.01};
  const RunCost reserved = cost_of_run(run, prices, 2, Offer::kReserved, 1);
  EXPECT_NEAR(reserved.outcome.hours, 10.01, 1e-9);
  EXPECT_NEAR(reserved.devices, 2 * 4 * 10.01, 1e-9);
  EXPECT_NEAR(reserved.storage, 100 * 0.73 * 10.01 / 730, 1e-9);
  EXPECT_NEAR(reserved.network, 10 * 0.1, 1e-9);  // one checkpoint, at the end
  const RunCost preemptible = cost_of_run(run, prices, 2, Offer::kPreemptible, 1);
  EXPECT_GT(preemptible.outcome.hours, reserved.outcome.hours);
  EXPECT_NEAR(preemptible.devices, 2 * 0.3 * preemptible.outcome.device_hours, 1e-9);
  EXPECT_LT(preemptible.devices, 0.4 * reserved.devices);
}

}  // namespace
}  // namespace trireme
