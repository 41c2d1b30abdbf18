#include "launcher/job/chosen_cut.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "launcher/job/build.h"
#include "launcher/report/plan_timeline.h"
#include "parallel/foresee/block_times.h"
#include "parallel/foresee/predict.h"
#include "parallel/layout/stage_cut.h"
#include "tests/launcher/job/cut_engine_options.h"

namespace trireme {
namespace {

/// Parses a list as in parallel.pipeline_cut.
StageMap cut_at(const std::string& list, int num_units, int pipeline) {
  const auto listed = from_word<PipelineCut>(list).firsts;
  return StageMap::given({.num_units = num_units, .pipeline = pipeline}, {listed.begin(), listed.end()});
}

JobConfig synthetic_job() {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 4, .hidden = 32, .heads = 2, .vocab = 64, .seq_len = 16};
  config.train = {.global_batch = 16, .micro_batch = 2};
  config.parallel.layout.pipeline = 2;
  config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kMeasured};
  return resolve(config);
}

// Blocks of 3 ms between an embedding of 1 ms and a head of 12 ms.
BlockProfile heavy_head(const JobConfig& config) {
  BlockProfile profile = measure_profile(config, {DeviceType::kCpu, 0}, 1);
  for (BlockTime& time : profile.blocks) time.forward_ms = 1, time.backward_ms = 2;
  profile.blocks.front().forward_ms = profile.blocks.front().backward_ms = 0.5;
  profile.blocks.back().forward_ms = 10;
  return profile;
}

TEST(MeasuredCut, MakesTheSlowestStageQuick) {
  JobConfig config = synthetic_job();
  const BlockProfile profile = heavy_head(config);
  config.parallel.pipeline_cut = measured_cut(config, profile, {.num_ranks = 2});
  EXPECT_EQ(to_word(config.parallel.pipeline_cut), "5");  // 13 and 12 ms
  const PlanReport report = make_plan_report(config, 2);
  const Timeline timeline = plan_timeline(report, profile, 0.0);
  EXPECT_EQ(timeline.num_ranks, 2);
  EXPECT_EQ(timeline.busy_ms(0), 8 * 13);
  EXPECT_EQ(timeline.busy_ms(1), 8 * 12);
  EXPECT_GT(timeline.bubble_share(), 0.0);
  config.parallel.layout.pipeline = 3;
  EXPECT_EQ(to_word(measured_cut(config, profile, {.num_ranks = 3})), "3, 5");  // 7, 6 and 12 ms
}

// For each cut into three: the slowest stage, and the predicted bytes of its largest rank.
struct CutFigures {
  std::string cut;
  double slowest_ms;
  std::int64_t peak_bytes;
};

std::vector<CutFigures> all_cuts_into_three(JobConfig config, const BlockProfile& profile) {
  std::vector<CutFigures> all;
  const std::vector<double> times = time_costs(profile.blocks);
  const auto n = static_cast<std::int64_t>(times.size());
  for (std::int64_t a = 1; a < n - 1; ++a) {
    for (std::int64_t b = a + 1; b < n; ++b) {
      config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kListed, .firsts = {a, b}};
      const std::string cut = to_word(config.parallel.pipeline_cut);
      const std::vector<double> costs = chunk_costs(cut_at(cut, static_cast<int>(n), 3), times);
      all.push_back({.cut = cut,
                     .slowest_ms = std::ranges::max(costs),
                     .peak_bytes = predict_largest_step(build_blocks(config.model),
                                                        cut_engine_options(config), sample_spec(config), 3)
                                       .memory.peak_total});
    }
  }
  return all;
}

// Under every relevant limit: no fitting cut is faster, and a fitting cut is found if there is any.
TEST(MeasuredCut, IsTheQuickestThatFits) {
  for (const int recompute : {0, 2}) {
    JobConfig config = synthetic_job();
    config.parallel.layout.pipeline = 3;
    config.parallel.layout.recompute_every = recompute;
    const BlockProfile profile = heavy_head(config);
    const auto all = all_cuts_into_three(config, profile);
    ASSERT_EQ(all.size(), 10u);
    std::set<std::string> chosen;
    for (const CutFigures& limit : all) {
      const std::string cut =
          to_word(measured_cut(config, profile, {.num_ranks = 3, .limit_bytes = limit.peak_bytes}));
      const auto found = std::ranges::find(all, cut, &CutFigures::cut);
      ASSERT_NE(found, all.end()) << cut;
      chosen.insert(cut);
      EXPECT_LE(found->peak_bytes, limit.peak_bytes) << cut;
      for (const CutFigures& other : all) {
        if (other.peak_bytes <= limit.peak_bytes) {
          EXPECT_LE(found->slowest_ms, other.slowest_ms) << other.cut;
        }
      }
    }
    EXPECT_GT(chosen.size(), 1u);  // the limits have an effect
    const std::int64_t too_little = std::ranges::min(all, {}, &CutFigures::peak_bytes).peak_bytes - 1;
    const auto bytes_of = [&](std::int64_t limit) {
      const std::string cut = to_word(measured_cut(config, profile, {.num_ranks = 3, .limit_bytes = limit}));
      return std::ranges::find(all, cut, &CutFigures::cut)->peak_bytes;
    };
    EXPECT_LT(bytes_of(too_little), bytes_of(std::numeric_limits<std::int64_t>::max()));
  }
}

/// Bytes of the largest of two ranks for a cut.
std::int64_t peak_of(JobConfig job, const std::string& cut) {
  job.parallel.pipeline_cut = from_word<PipelineCut>(cut);
  return predict_largest_step(build_blocks(job.model), cut_engine_options(job), sample_spec(job), 2)
      .memory.peak_total;
}

// If the fastest cut does not fit, a cut of two chunks per rank with less memory is chosen.
TEST(MeasuredCut, FitsWithSeveralChunks) {
  JobConfig config = synthetic_job();
  config.model.layers = 8;
  config.model.vocab = 2048;  // a head that is larger than it is slow
  config.parallel.layout.schedule = PipelineSchedule::kInterleaved;
  config.parallel.layout.chunks = 2;
  BlockProfile profile = measure_profile(config, {DeviceType::kCpu, 0}, 1);
  for (BlockTime& time : profile.blocks) time.forward_ms = 1, time.backward_ms = 2;
  const std::string quickest = to_word(measured_cut(config, profile, {.num_ranks = 2}));
  const std::string fitting =
      to_word(measured_cut(config, profile, {.num_ranks = 2, .limit_bytes = peak_of(config, quickest) - 1}));
  EXPECT_LT(peak_of(config, fitting), peak_of(config, quickest)) << quickest << " and " << fitting;
}

// Chunks of a rank share its memory: compares with all 35 cuts.
TEST(MeasuredCut, IsTheQuickestThatFitsOfAllCutsIntoChunks) {
  JobConfig config = synthetic_job();
  config.model.layers = 6;
  config.model.vocab = 512;
  config.parallel.layout.schedule = PipelineSchedule::kInterleaved;
  config.parallel.layout.chunks = 2;
  const BlockProfile profile = heavy_head(config);
  const std::vector<double> times = time_costs(profile.blocks);
  const auto slowest_of = [&](const std::string& cut) {
    return std::ranges::max(chunk_costs(cut_at(cut, 8, 4), times));
  };
  std::vector<CutFigures> all;
  for (int a = 1; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) {
      for (int c = b + 1; c < 8; ++c) {
        const std::string cut = fmt::format("{}, {}, {}", a, b, c);
        all.push_back({cut, slowest_of(cut), peak_of(config, cut)});
      }
    }
  }
  std::set<std::string> chosen;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    const std::int64_t limit = all[i].peak_bytes;
    double least = std::numeric_limits<double>::infinity();
    for (const CutFigures& figures : all) {
      if (figures.peak_bytes <= limit) least = std::min(least, figures.slowest_ms);
    }
    const std::string cut = to_word(measured_cut(config, profile, {.num_ranks = 2, .limit_bytes = limit}));
    EXPECT_LE(peak_of(config, cut), limit) << cut;
    EXPECT_EQ(slowest_of(cut), least) << cut << " within " << limit;
    chosen.insert(cut);
  }
  EXPECT_GT(chosen.size(), 1u);
}

TEST(MeasuredCut, NamesTheClosestCutWhereNoneFits) {
  for (const int chunks : {1, 2}) {
    JobConfig config = synthetic_job();
    config.parallel.layout.schedule =
        chunks > 1 ? PipelineSchedule::kInterleaved : PipelineSchedule::kOneForwardOneBackward;
    config.parallel.layout.chunks = chunks;
    const BlockProfile profile = heavy_head(config);
    ::testing::internal::CaptureStdout();  // of the logger
    const std::string cut = to_word(measured_cut(config, profile, {.num_ranks = 2, .limit_bytes = 1000}));
    const std::string warning = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(warning, ::testing::HasSubstr("none of the cuts that were tried fits 1000 B"));
    EXPECT_THAT(warning, ::testing::HasSubstr("(\"" + cut + "\")"));
    EXPECT_THAT(warning, ::testing::HasSubstr("needs " + format_bytes(peak_of(config, cut))));
  }
}

// A fitting cut is always found: the limit is the memory of the smallest of all cuts.
TEST(MeasuredCut, OfChunksFitsATenthAboveTheLeastOfAllCuts) {
  JobConfig config = synthetic_job();
  config.model.layers = 6;
  config.parallel.layout.schedule = PipelineSchedule::kInterleaved;
  config.parallel.layout.chunks = 2;
  config.parallel.layout.recompute_every = 2;
  BlockProfile profile = measure_profile(config, {DeviceType::kCpu, 0}, 1);
  for (BlockTime& time : profile.blocks) time.forward_ms = 1, time.backward_ms = 2;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const auto num_blocks = static_cast<int>(profile.blocks.size());
  for (int a = 1; a < num_blocks; ++a) {
    for (int b = a + 1; b < num_blocks; ++b) {
      for (int c = b + 1; c < num_blocks; ++c) {
        least = std::min(least, peak_of(config, fmt::format("{}, {}, {}", a, b, c)));
      }
    }
  }
  const std::int64_t limit = least + least / 10;
  const auto peak =
      peak_of(config, to_word(measured_cut(config, profile, {.num_ranks = 2, .limit_bytes = limit})));
  EXPECT_LE(peak, limit);
}

TEST(MeasuredCut, ImageModelsAreMeasuredOnImages) {
  JobConfig config;
  config.data = {.kind = DataKind::kSynthetic, .image_size = 8};
  config.model = {.name = "resnet20"};
  config.train = {.global_batch = 4, .micro_batch = 2};
  config.parallel.layout.pipeline = 2;
  config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kMeasured};
  config = resolve(config);
  const BlockProfile profile = measure_profile(config, {DeviceType::kCpu, 0}, 1);
  EXPECT_EQ(profile.blocks.size(), build_blocks(config.model)->size());
  EXPECT_EQ(measured_cut(config, profile, {.num_ranks = 2}).kind, PipelineCut::Kind::kListed);
  EXPECT_EQ(describe_mismatch(profile, config), "");
  config.data.image_size = 16;
  EXPECT_NE(describe_mismatch(profile, config), "");
}

}  // namespace
}  // namespace trireme
