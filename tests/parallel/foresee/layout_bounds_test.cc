#include "parallel/foresee/layout_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "models/gpt.h"
#include "models/resnet.h"
#include "parallel/foresee/accumulation_choice.h"
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

class LayoutBoundsTest : public ::testing::Test {
 protected:
  LayoutBoundsTest() { cluster_.devices[0].peak_tflops = {{"fp32", 10}}; }

  /// Calls check(layout, bound of its family) for every layout of the job.
  template <class Check>
  void for_each_layout(const PlannedJob& job, const Check& check) {
    const std::vector<LayoutFamily> families = layouts_of(job, searched_fields(), false);
    bounds_.prepare(families, 2);
    for (const LayoutFamily& family : testing::sampled(families, 25)) {
      const PipelineBound bound = bounds_.pipeline(family.job);
      for (std::size_t i = 0; i < family.shardings.size(); ++i) {
        PlannedJob layout = family.layout(i);
        for (const EngineOptions& options :
             accumulation_choices(layout.options, fields_by_memory(), layout.num_ranks)) {
          layout.options = options;
          SCOPED_TRACE(describe(options));
          check(layout, bound);
        }
      }
    }
  }

  static std::string describe(const EngineOptions& options) {
    return fmt::format("tensor {}, {} stages, {} x {}, zero {} {} {}, recompute {} {}, sequence {}",
                       options.layout.tensor, options.layout.pipeline, name(options.layout.schedule),
                       options.layout.chunks, static_cast<int>(options.layout.zero),
                       options.layout.keep_gathered, options.layout.accumulate_unsharded,
                       options.layout.recompute_every, static_cast<int>(options.layout.recompute),
                       options.layout.sequence);
  }

  /// Checks that no step is faster than kSureShare of any bound, and that bounds ascend. Returns the last
  /// bound's mean share of the step.
  double compare_times(const PlannedJob& job) {
    double sum = 0;
    int count = 0;
    for_each_layout(job, [&](const PlannedJob& layout, const PipelineBound& pipeline) {
      const double step_ms = bounds_.step_ms(layout, pipeline.ms);
      const double price_ms = price_layout(layout, cluster_, cluster_.devices[0]).step_ms;
      const double most = price_ms / kSureShare;
      EXPECT_LE(bounds_.blocks_ms(layout), most);
      EXPECT_LE(pipeline.ms, step_ms);
      EXPECT_LE(step_ms, most);
      EXPECT_LE(bounds_.simulated_ms(layout), most);
      sum += step_ms / price_ms;
      ++count;
    });
    EXPECT_GT(count, testing::kSanitized ? 4 : 80);
    return testing::kSanitized ? 1.0 : sum / count;  // too few layouts for a mean
  }

  /// Checks that no layout needs less than the bounds. Returns the first bound's mean share of the need.
  double compare_bytes(const PlannedJob& job) {
    double sum = 0;
    int count = 0;
    for_each_layout(job, [&](const PlannedJob& layout, const PipelineBound& pipeline) {
      const int stages = layout.options.layout.pipeline;
      const Mesh mesh = mesh_of(layout.num_ranks, stages, layout.options.layout.tensor);
      std::vector<std::int64_t> peaks(static_cast<std::size_t>(stages));
      for (int rank = 0; rank < layout.num_ranks; ++rank) {
        std::int64_t& peak = peaks[static_cast<std::size_t>(mesh.coord(rank)[Axis::kPipeline])];
        const StepPrediction step =
            predict_step(layout.blocks, layout.options, layout.sample, layout.num_ranks, rank);
        peak = std::max(peak, step.memory.device_peak);
      }
      const std::int64_t needed = std::accumulate(peaks.begin(), peaks.end(), std::int64_t{0});
      const std::vector<std::int64_t> bounds = bounds_.needed_bytes(layout, pipeline);
      const std::int64_t bound = std::accumulate(bounds.begin(), bounds.end(), std::int64_t{0});
      EXPECT_LE(bound, needed);
      EXPECT_TRUE(bounds_.may_fit(layout, std::ranges::max(peaks), false));
      EXPECT_TRUE(bounds_.may_fit(layout, needed / stages, true));
      EXPECT_FALSE(bounds_.may_fit(layout, bound / stages / 2, true));
      sum += static_cast<double>(bound) / static_cast<double>(needed);
      ++count;
    });
    return testing::kSanitized ? 1.0 : sum / count;  // too few layouts for a mean
  }

  Cluster cluster_ = testing::small_cluster();
  LayoutBounds bounds_{cluster_, cluster_.devices[0]};
};

TEST_F(LayoutBoundsTest, NoStepIsFaster) {
  EXPECT_GT(compare_times(gpt_job(8)), 0.95);
}

TEST_F(LayoutBoundsTest, NorOneThatExchangesForLong) {
  cluster_.links[0].gb_s = 0.2;
  cluster_.links[1].gb_s = 0.05;
  EXPECT_GT(compare_times(gpt_job(8)), 0.8);
}

TEST_F(LayoutBoundsTest, NorOneWhoseExchangesTakeTheRanksTime) {
  cluster_.links[0].gb_s = 0.2;
  cluster_.host.overlap = 0.3;
  compare_times(gpt_job(6));
}

TEST_F(LayoutBoundsTest, NorOneWhoseLibraryAddsGradients) {
  PlannedJob job = gpt_job(8);
  job.options.reduction = Reduction::kFast;
  EXPECT_GT(compare_times(job), 0.95);
}

// Gradients take most of the time here, and ways of adding them differ in time.
TEST_F(LayoutBoundsTest, NorOneThatMovesMuchMemory) {
  cluster_.devices[0].memory_gb_s = 20;
  EXPECT_GT(compare_times(gpt_job(8)), 0.9);
}

TEST_F(LayoutBoundsTest, NorOneOfConvolutions) {
  EXPECT_GT(compare_times(resnet_job(8)), 0.9);
}

TEST_F(LayoutBoundsTest, NoLayoutNeedsLess) {
  EXPECT_GT(compare_bytes(gpt_job(8)), 0.4);
}

// Data ranks have two or three micro-batches, so their sums are exchanged early.
TEST_F(LayoutBoundsTest, NorOneOfFewAndUnevenMicroBatches) {
  PlannedJob job = gpt_job(6);
  job.options.global_batch = 14;
  EXPECT_GT(compare_bytes(job), 0.4);
}

}  // namespace
}  // namespace trireme
