#include "parallel/cluster/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"
#include "tests/support/small_cluster.h"

namespace trireme {
namespace {

/// Measurements of a cluster with other coefficients than small_cluster().
Cluster true_cluster() {
  Cluster cluster = testing::small_cluster();
  cluster.devices[0].matmul_efficiency = 0.6;
  cluster.links[0].gb_s = 60;
  cluster.host.launch_us = 30;
  cluster.host.step_ms = 25;
  cluster.framework.half_dim = 250;
  return cluster;
}

struct Work {
  double hidden, bytes, kernels;
};

/// A step of one product, one exchange and some launches.
double step_ms(const Cluster& cluster, const Work& work) {
  const ClusterDevice& device = cluster.devices[0];
  const double share = work.hidden / (work.hidden + cluster.framework.half_dim);
  const double product_s =
      1e5 * work.hidden * work.hidden / (1e14 * device.matmul_efficiency * share * share);
  return 1e3 * (product_s + work.bytes / (cluster.links[0].gb_s * 1e9)) +
         1e-3 * work.kernels * cluster.host.launch_us + cluster.host.step_ms;
}

std::vector<MeasuredStep> measured_runs() {
  std::vector<MeasuredStep> runs;
  for (const double hidden : {512, 1024, 2048, 4096, 8192}) {
    for (const double bytes : {0.0, 1e9, 8e9}) {
      for (const double kernels : {100, 1000, 10000}) {
        const Work work{hidden, bytes, kernels};
        runs.push_back({.predicted_ms = [work](const Cluster& cluster) { return step_ms(cluster, work); },
                        .step_ms = step_ms(true_cluster(), work)});
      }
    }
  }
  return runs;
}

double mean_error(const Cluster& cluster, const std::vector<MeasuredStep>& runs) {
  double sum = 0;
  for (const MeasuredStep& run : runs) sum += std::abs(run.error(cluster));
  return sum / static_cast<double>(runs.size());
}

TEST(Calibrate, FindsTheClusterThatMeasured) {
  const std::vector<MeasuredStep> runs = measured_runs();
  ASSERT_GT(mean_error(testing::small_cluster(), runs), 0.10);
  const Cluster fitted = calibrate(testing::small_cluster(), runs);
  EXPECT_LT(mean_error(fitted, runs), 0.01);
  EXPECT_NEAR(fitted.devices[0].matmul_efficiency, 0.6, 0.03);
  EXPECT_NEAR(fitted.host.launch_us, 30, 3);
}

TEST(Calibrate, PredictsRunsThatItHasNotSeen) {
  const std::vector<MeasuredStep> runs = measured_runs();
  const std::vector<double> errors = cross_validate(testing::small_cluster(), runs, 5, 1);
  ASSERT_EQ(errors.size(), runs.size());
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  EXPECT_LT(sum / static_cast<double>(errors.size()), 0.02);
}

TEST(Calibrate, AnOddRunMovesLittle) {
  std::vector<MeasuredStep> runs = measured_runs();
  const std::vector<MeasuredStep> honest = runs;
  runs[7].step_ms *= 3;
  EXPECT_LT(mean_error(calibrate(testing::small_cluster(), runs), honest), 0.02);
}

TEST(Calibrate, CoefficientsWithoutEffectStay) {
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
  std::vector<MeasuredStep> runs = measured_runs();
  EXPECT_THROW(calibrate(testing::small_cluster(), {}), Error);
  EXPECT_THROW(cross_validate(testing::small_cluster(), runs, 1, 1), Error);
  EXPECT_THROW(cross_validate(testing::small_cluster(), runs, 1000, 1), Error);
  runs[0].step_ms = 0;
  EXPECT_THROW(calibrate(testing::small_cluster(), runs), Error);
}

}  // namespace
}  // namespace trireme
