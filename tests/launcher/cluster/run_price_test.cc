#include "launcher/cluster/run_price.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/support/small_cluster.h"

namespace trireme {
namespace {

/// Only products and attention take time, and they run at the peak.
Cluster ideal_cluster() {
  Cluster cluster = testing::small_cluster();
  cluster.devices[0].matmul_efficiency = 1;
  cluster.devices[0].attention_efficiency = 1;
  cluster.devices[0].memory_gb_s = 1e15;
  for (ClusterLink& link : cluster.links) link.latency_us = 0, link.gb_s = 1e15;
  cluster.host = {.launch_us = 0, .micro_batch_ms = 0, .step_ms = 0};
  cluster.framework.half_dim = 0;
  cluster.framework.ramp_gflop = 0;
  cluster.framework.attention = AttentionKernel::kUnfused;
  return cluster;
}

double step_s(const Cluster& cluster, const TrainingRun& run) {
  return 1e-3 * RunPrice(run, cluster.framework).step_ms(cluster);
}

/// FLOPs of forward and backward of a step without recompute: 72 B s l h^2 (1 + s / 6h + V / 12lh). This is
/// three quarters of the formula with recompute of Narayanan et al. 2021, appendix, whose logits do not run
/// again.
double step_flops(const TrainingRun& run, double passes) {
  const double tokens = static_cast<double>(run.global_batch) * run.seq_len;
  const double h = run.hidden;
  const double layers = passes * run.layers * tokens * (24 * h * h + 4.0 * run.seq_len * h);
  return layers + 6 * tokens * h * run.vocab;
}

constexpr double kPeak = 100e12;

TEST(RunPrice, AnIdealDeviceNeedsTheFlopsOfTheStep) {
  TrainingRun run = testing::small_run();
  EXPECT_NEAR(step_s(ideal_cluster(), run) / (step_flops(run, 3) / kPeak), 1, 1e-3);
  run.global_batch *= 8;  // many micro-batches are as many times as long
  EXPECT_NEAR(step_s(ideal_cluster(), run) / (step_flops(run, 3) / kPeak), 1, 1e-3);
}

TEST(RunPrice, RecomputeIsOneMoreForwardOfTheLayers) {
  TrainingRun run = testing::small_run();
  run.recompute = true;
  const double explicit_s = step_s(ideal_cluster(), run);
  EXPECT_NEAR(explicit_s / (step_flops(run, 4) / kPeak), 1, 0.03);  // the last layer does not run again
  run.recompute.reset();
  Cluster cluster = ideal_cluster();
  cluster.framework.recompute = true;
  EXPECT_EQ(step_s(cluster, run), explicit_s);
}

TEST(RunPrice, IdealTensorRanksDivideTheStep) {
  TrainingRun run = testing::small_run();
  run.tensor = run.ranks = 4;
  EXPECT_NEAR(step_s(ideal_cluster(), run) * 4 / (step_flops(run, 3) / kPeak), 1, 1e-3);
}

TEST(RunPrice, TheBubbleIsThatOf1F1BAndOfInterleaving) {
  TrainingRun run = testing::small_run();
  run.vocab = 4;  // a negligible head
  run.pipeline = run.ranks = 4;
  for (const int global_batch : {16, 64}) {  // simulated whole, and from short steps
    run.global_batch = global_batch;
    const double micro_batches = global_batch / 2.0, work_s = step_flops(run, 3) / kPeak / 4;
    run.chunks = 1;
    EXPECT_NEAR(step_s(ideal_cluster(), run) / work_s, 1 + 3 / micro_batches, 1e-2);
    run.chunks = 2;
    EXPECT_NEAR(step_s(ideal_cluster(), run) / work_s, 1 + 1.5 / micro_batches, 1e-2);
  }
}

TEST(RunPrice, FullyShardedGathersHideBehindComputation) {
  TrainingRun run = testing::small_run();
  run.data = run.ranks = 8;
  const double whole = step_s(ideal_cluster(), run);
  run.zero = 3;
  Cluster cluster = ideal_cluster();
  EXPECT_NEAR(step_s(cluster, run) / whole, 1, 1e-3);
  cluster.links[0].gb_s = 1;  // gathers take longer than products now
  const double layer_bytes = 2 * 12.0 * 2048 * 2048;
  EXPECT_GT(step_s(cluster, run), 16 * 2 * 7.0 / 8 * layer_bytes / 1e9);
}

TEST(RunPrice, TheHostBoundsSmallLayers) {
  TrainingRun run = testing::small_run();
  run.hidden = 64;
  Cluster cluster = ideal_cluster();
  cluster.host.launch_us = 100;
  cluster.host.backward_factor = 2;
  // 8 micro-batches, 16 layers, 30 kernels forward and twice that backward; embedding and head.
  const double host_s = 8 * 16 * 30 * 3 * 100e-6;
  EXPECT_NEAR(step_s(cluster, run) / host_s, 1, 0.05);
}

TEST(RunPrice, UnknownDevicesAndPrecisionsAreNamed) {
  TrainingRun run = testing::small_run();
  const auto refusal = [&run] {
    try {
      step_s(testing::small_cluster(), run);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  run.device = "a200";
  EXPECT_THAT(refusal(), ::testing::HasSubstr("unknown device \"a200\": the cluster has card"));
  run.device = "card";
  run.precision = "fp8";
  EXPECT_THAT(refusal(), ::testing::HasSubstr("devices.card has no peak_tflops.fp8"));
}

}  // namespace
}  // namespace trireme
