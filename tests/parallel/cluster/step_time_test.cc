#include "parallel/cluster/step_time.h"

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
  cluster.host = {.launch_us = 0, .collective_us = 0, .message_us = 0, .micro_batch_ms = 0, .step_ms = 0};
  cluster.framework.half_dim = 0;
  cluster.framework.ramp_gflop = 0;
  cluster.framework.attention = AttentionKernel::kUnfused;
  return cluster;
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

TEST(StepTime, AnIdealDeviceNeedsTheFlopsOfTheStep) {
  const TrainingRun run = testing::small_run();
  const double seconds = predict_step(ideal_cluster(), run).total_s();
  EXPECT_NEAR(seconds / (step_flops(run, 3) / kPeak), 1, 1e-6);
}

TEST(StepTime, RecomputeIsOneMoreForwardOfTheLayers) {
  TrainingRun run = testing::small_run();
  run.recompute = true;
  EXPECT_NEAR(predict_step(ideal_cluster(), run).total_s() / (step_flops(run, 4) / kPeak), 1, 1e-6);
  run.recompute.reset();
  Cluster cluster = ideal_cluster();
  cluster.framework.recompute = true;
  EXPECT_NEAR(predict_step(cluster, run).total_s() / (step_flops(run, 4) / kPeak), 1, 1e-6);
}

TEST(StepTime, IdealTensorRanksDivideTheStep) {
  TrainingRun run = testing::small_run();
  run.tensor = run.ranks = 4;
  EXPECT_NEAR(predict_step(ideal_cluster(), run).total_s() * 4 / (step_flops(run, 3) / kPeak), 1, 1e-6);
}

TEST(StepTime, TheBubbleIsThatOf1F1BAndOfInterleaving) {
  TrainingRun run = testing::small_run();
  run.pipeline = run.ranks = 4;
  run.vocab = 1;  // a negligible head: 8 micro-batches, (p - 1) / m of the time
  const StepTime step = predict_step(ideal_cluster(), run);
  EXPECT_NEAR(step.bubble_s / step.micro_batches_s, 3.0 / 8, 1e-3);
  run.chunks = 2;
  const StepTime interleaved = predict_step(ideal_cluster(), run);
  EXPECT_NEAR(interleaved.bubble_s / interleaved.micro_batches_s, 3.0 / 16, 1e-3);
}

TEST(StepTime, GradientsOfDataRanksTakeAnAllReduce) {
  TrainingRun run = testing::small_run();
  run.data = run.ranks = 8;
  Cluster cluster = ideal_cluster();
  cluster.links[0].gb_s = 100;
  cluster.framework.exposed_exchange = 1;
  const double elems = 16 * 12.0 * 2048 * 2048 + 50304.0 * 2048;
  EXPECT_NEAR(predict_step(cluster, run).exchange_s, 2 * 7.0 / 8 * 2 * elems / 100e9, 1e-9);
}

TEST(StepTime, FullyShardedGathersHideBehindComputation) {
  TrainingRun run = testing::small_run();
  run.data = run.ranks = 8;
  const double whole = predict_step(ideal_cluster(), run).total_s();
  run.zero = 3;
  Cluster cluster = ideal_cluster();
  EXPECT_NEAR(predict_step(cluster, run).total_s() / whole, 1, 1e-6);
  cluster.links[0].gb_s = 1;  // gathers take longer than products now
  const double layer_bytes = 2 * 12.0 * 2048 * 2048;
  EXPECT_GT(predict_step(cluster, run).total_s(), 16 * 3 * 7.0 / 8 * layer_bytes / 1e9);
}

TEST(StepTime, TheHostBoundsSmallLayers) {
  TrainingRun run = testing::small_run();
  run.hidden = 64;
  Cluster cluster = ideal_cluster();
  cluster.host.launch_us = 100;
  cluster.host.backward_factor = 2;
  // 8 micro-batches, 16 layers, 30 kernels forward and twice that backward.
  const double host_s = 8 * (16 * 30 * 3 + 20) * 100e-6;
  EXPECT_NEAR(predict_step(cluster, run).total_s() / host_s, 1, 0.02);
}

TEST(StepTime, Fp8SpeedsUpLinearLayersOnly) {
  TrainingRun run = testing::small_run();
  Cluster cluster = ideal_cluster();
  cluster.devices[0].peak_tflops["fp8"] = 200;
  cluster.framework.fp8_efficiency = 1;
  const double bf16 = predict_step(cluster, run).total_s();
  run.precision = "fp8";
  const double tokens = 16.0 * 1024;
  const double linear_s = 3 * 16 * tokens * 24 * 2048.0 * 2048 / kPeak;
  EXPECT_NEAR(bf16 - predict_step(cluster, run).total_s(), linear_s / 2, 1e-6 * bf16);
}

TEST(StepTime, UnknownDevicesAndPrecisionsAreNamed) {
  TrainingRun run = testing::small_run();
  const auto refusal = [&run] {
    try {
      predict_step(testing::small_cluster(), run);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  run.device = "a200";
  EXPECT_THAT(refusal(), ::testing::HasSubstr("unknown device \"a200\": the cluster has card"));
  run.device = "card";
  run.precision = "fp8";
  EXPECT_THAT(refusal(), ::testing::HasSubstr("precision fp8: devices.card.peak_tflops has bf16, fp16 only"));
}

}  // namespace
}  // namespace trireme
