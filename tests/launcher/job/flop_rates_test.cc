#include "launcher/job/flop_rates.h"

#include <gtest/gtest.h>

#include "models/gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kLayers = 3, kHidden = 32, kHeads = 2, kVocab = 50, kSeq = 16, kBatch = 12;

PlannedJob job(EngineOptions options, int num_ranks) {
  options.global_batch = kBatch;
  return {.blocks = std::make_shared<const BlockList>(build_gpt(
              {.layers = kLayers, .hidden = kHidden, .heads = kHeads, .vocab = kVocab, .seq_len = kSeq})),
          .options = options,
          .sample = {.input = {kSeq}, .target = {kSeq}},
          .num_ranks = num_ranks};
}

TEST(StepOperations, AreThoseOfTheFormula) {
  // 12 hidden^2 weights per layer plus the head, each multiplied once in forward and twice in backward.
  // Causal attention: two products of T x T x hidden in forward, five in backward, half of each.
  const std::int64_t products = 6 * (12 * kLayers * kHidden * kHidden + kHidden * kVocab) * kSeq;
  const std::int64_t attention = kLayers * (2 + 5) * kSeq * kSeq * kHidden;
  EXPECT_EQ(step_operations(job({.micro_batch = 1}, 1)),
            static_cast<double>(kBatch * (products + attention)));
}

TEST(StepOperations, DoNotDependOnTheLayout) {
  const double plain = step_operations(job({.micro_batch = 1}, 1));
  EXPECT_EQ(step_operations(job({.micro_batch = 3}, 4)), plain);
  EXPECT_EQ(
      step_operations(job({.micro_batch = 2,
                           .layout = {.pipeline = 3, .zero = ZeroStage::kParameters, .recompute_every = 1},
                           .sample = SampleSpec{.input = {kSeq}, .target = {kSeq}}},
                          6)),
      plain);
  EXPECT_EQ(step_operations(job({.micro_batch = 1, .layout = {.tensor = 2, .sequence = true}}, 2)), plain);
}

TEST(ProductRate, IsMeasuredInEveryPrecision) {
  for (const PrecisionMode mode :
       {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kBf16, PrecisionMode::kFp8}) {
    EXPECT_GT(measure_product_rate({DeviceType::kCpu, 0}, 1, Precision(mode)), 1e6);
  }
}

TEST(PeakRate, AStepAboveItLeavesNothingToCompareWith) {
  PeakRate peak(8e9);
  EXPECT_EQ(peak.utilization(4e9), 0.5);
  EXPECT_EQ(peak.utilization(8e9), 1.0);
  EXPECT_EQ(peak.utilization(12e9), std::nullopt);
  EXPECT_EQ(peak.utilization(4e9), std::nullopt) << "the measured peak must be too low for this step, too";
  EXPECT_EQ(peak.flops_per_s(), 0);
  EXPECT_EQ(PeakRate(0).utilization(1e9), std::nullopt);
}

}  // namespace
}  // namespace trireme
