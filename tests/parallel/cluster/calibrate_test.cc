#include "parallel/cluster/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/cluster/step_time.h"
#include "runtime/base/error.h"
#include "tests/support/small_cluster.h"

namespace trireme {
namespace {

/// Measurements of a cluster with other coefficients than small_cluster(), for 72 layouts on 8 ranks.
Cluster true_cluster() {
  Cluster cluster = testing::small_cluster();
  cluster.devices[0].matmul_efficiency = 0.6;
  cluster.links[0].gb_s = 60;
  cluster.host.launch_us = 30;
  cluster.host.step_ms = 25;
  cluster.framework.half_dim = 250;
  return cluster;
}

std::vector<TrainingRun> measured_runs() {
  std::vector<TrainingRun> runs;
  for (const int hidden : {512, 1024, 2048, 4096}) {
    for (const int tensor : {1, 2, 8}) {
      for (const int pipeline : {1, 2, 4}) {
        for (const int micro_batch : {1, 4}) {
          TrainingRun run = testing::small_run();
          if (tensor * pipeline > 8) continue;
          run.hidden = hidden;
          run.micro_batch = micro_batch;
          run.global_batch = 64;
          run.tensor = tensor;
          run.pipeline = pipeline;
          run.ranks = 8;
          run.data = 8 / (tensor * pipeline);
          run.step_ms = predict_step(true_cluster(), run).total_s() * 1e3;
          runs.push_back(run);
        }
      }
    }
  }
  return runs;
}

double mean_error(const Cluster& cluster, const std::vector<TrainingRun>& runs) {
  double sum = 0;
  for (const TrainingRun& run : runs) {
    sum += std::abs(predict_step(cluster, run).total_s() * 1e3 / *run.step_ms - 1);
  }
  return sum / static_cast<double>(runs.size());
}

TEST(Calibrate, FindsTheClusterThatMeasured) {
  const std::vector<TrainingRun> runs = measured_runs();
  ASSERT_GT(mean_error(testing::small_cluster(), runs), 0.10);
  const Cluster fitted = calibrate(testing::small_cluster(), runs);
  EXPECT_LT(mean_error(fitted, runs), 0.01);
  EXPECT_NEAR(fitted.devices[0].matmul_efficiency, 0.6, 0.03);
  EXPECT_NEAR(fitted.host.launch_us, 30, 3);
}

TEST(Calibrate, ForeseesRunsThatItHasNotSeen) {
  const std::vector<TrainingRun> runs = measured_runs();
  const std::vector<double> errors = cross_validate(testing::small_cluster(), runs, 5, 1);
  ASSERT_EQ(errors.size(), runs.size());
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  EXPECT_LT(sum / static_cast<double>(errors.size()), 0.02);
}

TEST(Calibrate, AnOddRunMovesLittle) {
  std::vector<TrainingRun> runs = measured_runs();
  const std::vector<TrainingRun> honest = runs;
  *runs[7].step_ms *= 3;
  EXPECT_LT(mean_error(calibrate(testing::small_cluster(), runs), honest), 0.02);
}

TEST(Calibrate, WhatNoRunShowsStays) {
  const Cluster fitted = calibrate(testing::small_cluster(), measured_runs());
  EXPECT_NEAR(fitted.link("wire").gb_s, 40, 1e-9);
  EXPECT_NEAR(fitted.framework.fp8_efficiency, testing::small_cluster().framework.fp8_efficiency, 1e-9);
}

TEST(Calibrate, DevicesOfAFamilyShareTheirEfficiency) {
  Cluster cluster = testing::small_cluster();
  cluster.devices.push_back(cluster.devices[0]);
  cluster.devices[1].name = "card-large";
  const Cluster fitted = calibrate(cluster, measured_runs());
  EXPECT_NE(fitted.devices[0].matmul_efficiency, cluster.devices[0].matmul_efficiency);
  EXPECT_EQ(fitted.devices[0].matmul_efficiency, fitted.devices[1].matmul_efficiency);
}

TEST(Calibrate, RefusesRunsWithoutTimesAndTooFewOfThem) {
  std::vector<TrainingRun> runs = measured_runs();
  EXPECT_THROW(calibrate(testing::small_cluster(), {}), Error);
  EXPECT_THROW(cross_validate(testing::small_cluster(), runs, 1, 1), Error);
  EXPECT_THROW(cross_validate(testing::small_cluster(), runs, 1000, 1), Error);
  runs[0].step_ms.reset();
  EXPECT_THROW(calibrate(testing::small_cluster(), runs), Error);
}

}  // namespace
}  // namespace trireme
