#include "parallel/foresee/layout_bound.h"

#include <gtest/gtest.h>

#include "models/gpt.h"
#include "models/resnet.h"
#include "parallel/foresee/accumulation_choice.h"
#include "parallel/foresee/layout_candidates.h"
#include "parallel/foresee/plan_price.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_cluster.h"

namespace trireme {
namespace {

PlannedJob job_of(BlockList blocks, const SampleSpec& sample, int num_ranks) {
  PlannedJob job{.blocks = std::make_shared<const BlockList>(std::move(blocks)),
                 .sample = sample,
                 .num_ranks = num_ranks};
  job.options.global_batch = 24;
  job.options.micro_batch = 2;
  job.options.hosts = hosts_of(num_ranks, 4);
  return job;
}

PlannedJob gpt_job(int num_ranks) {
  const GptConfig config{
      .layers = 4, .hidden = 64, .heads = 4, .vocab = 128, .seq_len = 32, .tensor_chunks = 2};
  return job_of(build_gpt(config), {.input = {32}, .target = {32}}, num_ranks);
}

PlannedJob resnet_job(int num_ranks) {
  const ResNetConfig config{.stem = ResNetConfig::Stem::kCifar,
                            .bottleneck = false,
                            .units = {2, 2, 2},
                            .width = 16,
                            .classes = 10};
  return job_of(build_resnet(config), {.input = {32, 32, 3}, .input_dtype = DType::kFloat32, .target = {}},
                num_ranks);
}

class LayoutBoundTest : public ::testing::Test {
 protected:
  LayoutBoundTest() { cluster_.devices[0].peak_tflops = {{"fp32", 10}}; }

  /// Checks that no step is faster than kSureShare of a bound. Returns the second bound's mean share of the
  /// step.
  double mean_share(const PlannedJob& job) {
    double sum = 0;
    int count = 0;
    std::vector<LayoutCandidate> all = layout_candidates(job, searched_fields(), false);
    set_block_bounds(all, job, cluster_, cluster_.devices[0]);
    for (const LayoutCandidate& candidate : testing::sampled(all, 25)) {
      PlannedJob layout = candidate.of(job);
      for (const EngineOptions& options :
           accumulation_choices(layout.options, fields_by_memory(), layout.num_ranks)) {
        layout.options = options;
        const double price_ms = price_layout(layout, cluster_, cluster_.devices[0]).step_ms;
        const double bound_ms = simulated_bound_ms(layout, cluster_, cluster_.devices[0]);
        EXPECT_LE(kSureShare * candidate.bound_ms, price_ms) << to_text(options.layout);
        EXPECT_LE(kSureShare * bound_ms, price_ms) << to_text(options.layout);
        sum += bound_ms / price_ms;
        ++count;
      }
    }
    EXPECT_GT(count, testing::kSanitized ? 4 : 80);
    return testing::kSanitized ? 1.0 : sum / count;  // too few layouts for a mean
  }

  Cluster cluster_ = testing::small_cluster();
};

TEST_F(LayoutBoundTest, NoStepIsFaster) {
  EXPECT_GT(mean_share(gpt_job(8)), 0.95);
}

TEST_F(LayoutBoundTest, HoldsForSlowLinks) {
  cluster_.links[0].gb_s = 0.2;
  cluster_.links[1].gb_s = 0.05;
  EXPECT_GT(mean_share(gpt_job(8)), 0.8);
}

TEST_F(LayoutBoundTest, HoldsIfExchangesTakeTheRanksTime) {
  cluster_.links[0].gb_s = 0.2;
  cluster_.host.overlap = 0.3;
  mean_share(gpt_job(6));
}

TEST_F(LayoutBoundTest, HoldsForSumsByTheLibrary) {
  PlannedJob job = gpt_job(8);
  job.options.reduction = Reduction::kFast;
  EXPECT_GT(mean_share(job), 0.95);
}

// Gradients take most of the time here, and ways of adding them differ in time.
TEST_F(LayoutBoundTest, HoldsForSlowMemory) {
  cluster_.devices[0].memory_gb_s = 20;
  EXPECT_GT(mean_share(gpt_job(8)), 0.9);
}

TEST_F(LayoutBoundTest, HoldsForConvolutions) {
  EXPECT_GT(mean_share(resnet_job(8)), 0.9);
}

}  // namespace
}  // namespace trireme
