#include "launcher/job/chosen_cut.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "launcher/job/build.h"
#include "launcher/report/plan_report.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/layout/block_work.h"
#include "parallel/layout/stage_cut.h"
#include "tests/launcher/job/cut_engine_options.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

/// Parses a list as in parallel.pipeline_cut.
StageMap cut_at(const std::string& list, int num_units, int pipeline) {
  const auto listed = from_word<PipelineCut>(list).firsts;
  return StageMap::given({.num_units = num_units, .pipeline = pipeline}, {listed.begin(), listed.end()});
}

JobConfig synthetic_job(const std::string& cut) {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 4, .hidden = 32, .heads = 2, .vocab = 512, .seq_len = 16};
  config.train = {.global_batch = 16, .micro_batch = 2};
  config.parallel.layout.pipeline = 2;
  config.parallel.pipeline_cut = from_word<PipelineCut>(cut);
  return resolve(config);
}

std::vector<double> time_shares(const PlanReport& report) {
  std::vector<double> shares;
  for (const ChunkReport& chunk : report.chunks) shares.push_back(chunk.time_share);
  return shares;
}

// With a cut by parameters, the embedding was a stage without arithmetic, and two others had 35.5 % each.
TEST(ChosenCut, StagesOfGpt2ShareTheTime) {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.size = "124m"};
  config.train = {.global_batch = 32, .micro_batch = 4};
  config.parallel.layout.pipeline = 4;
  const auto shares = time_shares(make_plan_report(resolve(config), 4));
  ASSERT_EQ(shares.size(), 4u);
  EXPECT_GT(std::ranges::min(shares), 0.23);
  EXPECT_LT(std::ranges::max(shares), 0.291);  // the head's share, which cannot be cut
  config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kParameters};
  EXPECT_EQ(time_shares(make_plan_report(resolve(config), 4))[0], 0.0);
}

// With a cut by parameters, which are mostly in the last blocks, it was 74.8 %.
TEST(ChosenCut, StagesOfAResNetShareTheTime) {
  JobConfig config;
  config.data = {.kind = DataKind::kSynthetic};
  config.model = {.name = "resnet50"};
  config.train = {.global_batch = 8, .micro_batch = 2};
  config.parallel.layout.pipeline = 4;
  EXPECT_LT(std::ranges::max(time_shares(make_plan_report(resolve(config), 4))), 0.284);
  config.parallel.layout.schedule = PipelineSchedule::kInterleaved;
  config.parallel.layout.chunks = 2;
  EXPECT_LT(std::ranges::max(time_shares(make_plan_report(resolve(config), 4))), 0.145);
}

/// Bytes of the largest rank for a cut.
std::int64_t peak_of(JobConfig job, const std::string& cut) {
  job.parallel.pipeline_cut = from_word<PipelineCut>(cut);
  const int ranks = static_cast<int>(job.parallel.layout.pipeline);
  return predict_largest_step(build_blocks(job.model), cut_engine_options(job), sample_spec(job), ranks)
      .memory.peak_total;
}

// Compares with all cuts into three, under the limit of each.
TEST(ChosenCut, FlopsTakesTheFastestThatFits) {
  JobConfig config = synthetic_job("flops");
  config.parallel.layout.pipeline = 3;
  const std::vector<double> work = count_block_work(*build_blocks(config.model), sample_spec(config));
  const auto slowest_of = [&](const std::string& cut) {
    return std::ranges::max(chunk_costs(cut_at(cut, 6, 3), work));
  };
  std::vector<std::pair<std::string, std::int64_t>> all;
  for (int a = 1; a < 5; ++a) {
    for (int b = a + 1; b < 6; ++b) {
      const std::string cut = fmt::format("{}, {}", a, b);
      all.emplace_back(cut, peak_of(config, cut));
    }
  }
  std::set<std::string> chosen;
  for (const auto& [name, limit] : all) {
    const std::string cut = to_word(flops_cut(config, {.num_ranks = 3, .limit_bytes = limit}));
    const std::string list =
        cut == "flops" ? as_list(cut_by_work(*build_blocks(config.model), sample_spec(config), 3)) : cut;
    chosen.insert(cut);
    EXPECT_LE(peak_of(config, cut), limit) << cut;
    EXPECT_EQ(peak_of(config, cut), peak_of(config, list));
    for (const auto& [other, bytes] : all) {
      if (bytes <= limit) {
        EXPECT_LE(slowest_of(list), slowest_of(other)) << list << ", " << other;
      }
    }
  }
  EXPECT_TRUE(chosen.contains("flops"));
  EXPECT_GT(chosen.size(), 1u);  // the limits have an effect
}

TEST(ChosenCut, FlopsStaysAsItIsWhereNoCutFits) {
  for (const int chunks : {1, 2}) {
    JobConfig config = synthetic_job("flops");
    config.parallel.layout.schedule =
        chunks > 1 ? PipelineSchedule::kInterleaved : PipelineSchedule::kOneForwardOneBackward;
    config.parallel.layout.chunks = chunks;
    EXPECT_EQ(to_word(flops_cut(config, {.num_ranks = 2, .limit_bytes = 1000})), "flops");
    EXPECT_EQ(to_word(flops_cut(config, {.num_ranks = 2})), "flops");
  }
}

TEST(ChosenCut, AnotherCutIsTakenWithAMessage) {
  JobConfig config = synthetic_job("flops");
  const std::int64_t limit = peak_of(config, "flops") - 1;
  ::testing::internal::CaptureStdout();  // of the logger
  const std::string cut = to_word(flops_cut(config, {.num_ranks = 2, .limit_bytes = limit}));
  const std::string message = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(from_word<PipelineCut>(cut).kind, PipelineCut::Kind::kListed) << cut;
  EXPECT_THAT(message, ::testing::HasSubstr("a rank of stage 0 needs " + format_bytes(limit + 1)));
  EXPECT_THAT(message, ::testing::HasSubstr("taken is \"" + cut + "\", the fastest that fits"));
}

/// Runs the choice on two ranks with one job and possibly different limits.
std::string cut_on_two_ranks(const JobConfig& config, const CutMeasurement& measurement,
                             std::vector<std::int64_t> limits = {}) {
  limits.resize(2, std::numeric_limits<std::int64_t>::max());
  std::vector<std::string> cuts(2);
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    const auto rank = static_cast<std::size_t>(comm->rank());
    cuts[rank] = to_word(chosen_cut(config, comm, {.measurement = measurement, .limit_bytes = limits[rank]}));
  });
  EXPECT_EQ(cuts[0], cuts[1]);
  return cuts[0];
}

bool is_list(const std::string& cut) {
  return from_word<PipelineCut>(cut).kind == PipelineCut::Kind::kListed;
}

TEST(ChosenCut, IsTheSameOnEveryRankForTheLeastMemory) {
  const JobConfig config = synthetic_job("flops");
  const std::int64_t needed = peak_of(config, "flops");
  EXPECT_EQ(cut_on_two_ranks(config, {}, {needed, needed}), "flops");
  EXPECT_TRUE(is_list(cut_on_two_ranks(config, {}, {needed - 1, needed})));
  EXPECT_TRUE(is_list(cut_on_two_ranks(config, {}, {needed, needed - 1})));
  EXPECT_EQ(cut_on_two_ranks(synthetic_job("blocks"), {}, {1, 1}), "blocks");
}

TEST(ChosenCut, IsMeasuredOnceAndTheSameOnEveryRank) {
  const testing::TemporaryFolder folder;
  const JobConfig job = synthetic_job("measured");
  const auto file = folder / "out" / "block_times.json";
  const CutMeasurement measurement{.device = {DeviceType::kCpu, 0}, .file = file};
  EXPECT_TRUE(is_list(cut_on_two_ranks(job, measurement)));
  BlockProfile heavy_head = measure_profile(job, {DeviceType::kCpu, 0}, 1);
  for (BlockTime& time : heavy_head.blocks) time.forward_ms = 1, time.backward_ms = 2;
  heavy_head.blocks.back().forward_ms = 20;
  testing::write_file(file, to_json(heavy_head));
  EXPECT_EQ(cut_on_two_ranks(job, measurement), "5");  // from the file
  JobConfig other = job;
  other.train.micro_batch = 1;
  cut_on_two_ranks(other, measurement);  // measured again: the file is of another job
  EXPECT_EQ(read_profile(file).micro_batch, 1);
}

}  // namespace
}  // namespace trireme
