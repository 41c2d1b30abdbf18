#include "launcher/train/remedy_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "launcher/train/build.h"
#include "tests/launcher/train/cut_engine_options.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

struct Tried {
  JobConfig config;
  int ranks = 1;
  std::int64_t peak = 0;
};

JobConfig small_job() {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 4, .hidden = 16, .heads = 2, .vocab = 40, .seq_len = 16};
  config.train = {.global_batch = 12, .micro_batch = 4};
  return resolve(config);
}

std::int64_t largest_peak(const JobConfig& config, int ranks) {
  return predict_largest_step(build_blocks(config.model), cut_engine_options(config), sample_spec(config),
                              ranks)
      .memory.peak_total;
}

// Every layout in the order of remedies, each predicted whole: what the search must agree with. Of a model
// that is not recomputed: segments of all lengths.
std::vector<Tried> try_all(const JobConfig& job, int num_ranks) {
  const auto stages = static_cast<int>(job.parallel.pipeline);
  const std::int64_t batch = job.train.global_batch;
  const auto num_blocks = static_cast<std::int64_t>(build_blocks(job.model)->size());
  std::vector<Tried> all;
  for (int ranks = num_ranks; ranks <= batch * stages; ++ranks) {
    if (ranks % stages != 0) continue;
    for (std::int64_t micro_batch = job.train.micro_batch; micro_batch >= 1; --micro_batch) {
      const std::int64_t round = micro_batch * ranks / stages;
      if (batch % round != 0) continue;
      if (job.parallel.schedule == PipelineSchedule::kInterleaved && batch / round < stages) continue;
      for (std::int64_t k = num_blocks; k >= 1; --k) {
        const std::int64_t recompute = k == num_blocks ? 0 : k;
        for (std::int64_t zero = job.parallel.zero; zero <= 3; ++zero) {
          if (ranks == stages && zero > job.parallel.zero) continue;
          Tried& tried = all.emplace_back(Tried{.config = job, .ranks = ranks});
          tried.config.train.micro_batch = micro_batch;
          tried.config.parallel.recompute_every = recompute;
          tried.config.parallel.zero = zero;
          tried.peak = largest_peak(tried.config, ranks);
        }
      }
    }
  }
  return all;
}

struct Case {
  const char* name;
  int ranks = 1;
  std::int64_t pipeline = 1;
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  std::int64_t chunks = 1;
  PrecisionMode precision = PrecisionMode::kFp32;
  std::int64_t seq_len = 16;  // longer: activations outweigh the state
  TrainSection train = {.global_batch = 12, .micro_batch = 4};
};

class EveryLimit : public ::testing::TestWithParam<Case> {};

TEST_P(EveryLimit, GivesTheFirstLayoutThatFits) {
  const Case& c = GetParam();
  JobConfig job = small_job();
  job.model.seq_len = c.seq_len;
  job.train = c.train;
  job.parallel.pipeline = c.pipeline;
  job.parallel.schedule = c.schedule;
  job.parallel.chunks = c.chunks;
  job.precision.mode = c.precision;
  const auto blocks = build_blocks(job.model);
  const std::vector<Tried> all = try_all(job, c.ranks);
  std::vector<std::int64_t> limits;
  for (const Tried& tried : all) limits.push_back(tried.peak);
  std::ranges::sort(limits);
  const std::int64_t least = limits.front();
  const std::size_t stride = limits.size() / 8 + 1;
  for (std::size_t i = 0; i < limits.size(); i += stride) {
    for (const std::int64_t limit : {limits[i], limits[i] - 1}) {
      RemedySearch search(job, blocks, c.ranks, limit);
      const std::optional<Remedy> found = search.run();
      const auto first = std::ranges::find_if(all, [&](const Tried& t) { return t.peak <= limit; });
      ASSERT_EQ(found.has_value(), first != all.end()) << limit;
      if (!found) {
        EXPECT_EQ(search.smallest().peak_bytes, least);
        continue;
      }
      EXPECT_EQ(found->peak_bytes, first->peak) << limit;
      EXPECT_EQ(found->num_ranks, first->ranks);
      EXPECT_EQ(found->config.train.micro_batch, first->config.train.micro_batch);
      EXPECT_EQ(found->config.parallel.recompute_every, first->config.parallel.recompute_every);
      EXPECT_EQ(found->config.parallel.zero, first->config.parallel.zero);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, EveryLimit,
    ::testing::Values(
        Case{"one_rank"}, Case{.name = "activations", .seq_len = 96},
        Case{.name = "sixty_micro_batches", .seq_len = 4, .train = {.global_batch = 60, .micro_batch = 1}},
        Case{.name = "three_ranks_fp16", .ranks = 3, .precision = PrecisionMode::kFp16},
        Case{.name = "stages", .ranks = 2, .pipeline = 2},
        Case{.name = "chunks",
             .ranks = 2,
             .pipeline = 2,
             .schedule = PipelineSchedule::kInterleaved,
             .chunks = 2}),
    [](const auto& info) { return std::string(info.param.name); });

// Not only doubled: of twelve samples three, six and twelve ranks take equal parts.
TEST(RemedySearch, RanksAreThoseThatShareTheBatchEvenly) {
  JobConfig job = small_job();
  job.parallel.zero = 3;
  job.parallel.recompute_every = 1;
  job.train.micro_batch = 1;
  const auto blocks = build_blocks(job.model);
  for (const int ranks : {3, 4, 6, 12}) {
    RemedySearch search(job, blocks, 2, largest_peak(job, ranks));
    const auto found = search.run();
    ASSERT_TRUE(found) << ranks;
    EXPECT_THAT(found->changes, ElementsAre(std::to_string(ranks) + " ranks"));
  }
}

// Of 132 blocks segments of 3 need less than those of any power of two.
TEST(RemedySearch, RecomputeTriesSegmentsOfManyLengths) {
  JobConfig job = small_job();
  job.model = {.layers = 130, .hidden = 32, .heads = 1, .vocab = 16, .seq_len = 4096};
  job.train = {.global_batch = 1, .micro_batch = 1};
  job = resolve(job);
  const auto with_segments = [&](std::int64_t k) {
    JobConfig changed = job;
    changed.parallel.recompute_every = k;
    return largest_peak(changed, 1);
  };
  for (const std::int64_t k : {1, 2, 4, 8, 16}) ASSERT_GT(with_segments(k), with_segments(3)) << k;
  RemedySearch search(job, build_blocks(job.model), 1, with_segments(3));
  const auto found = search.run();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->changes, ElementsAre("parallel.recompute_every = 3"));
}

// A large head beside small blocks: only a segment of all the others leaves it alone.
TEST(RemedySearch, RecomputeTriesOneSegmentOfAllButTheLastBlock) {
  JobConfig job = small_job();
  job.model = {.layers = 6, .hidden = 16, .heads = 1, .vocab = 32768, .seq_len = 64};
  job.train = {.global_batch = 1, .micro_batch = 1};
  job = resolve(job);
  job.parallel.recompute_every = 7;
  const std::int64_t limit = largest_peak(job, 1);
  job.parallel.recompute_every = 0;
  ASSERT_GT(largest_peak(job, 1), limit);
  RemedySearch search(job, build_blocks(job.model), 1, limit);
  const auto found = search.run();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->changes, ElementsAre("parallel.recompute_every = 7"));
}

TEST(RemedySearch, GradientsNeedNotBeKeptWhole) {
  JobConfig job = small_job();
  job.train = {.global_batch = 16, .micro_batch = 1};
  job.parallel.zero = 2;
  const std::int64_t limit = largest_peak(job, 2);
  job.parallel.accumulate_unsharded = true;
  ASSERT_GT(largest_peak(job, 2), limit);
  RemedySearch search(job, build_blocks(job.model), 2, limit);
  const auto found = search.run();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->changes, ElementsAre("parallel.accumulate_unsharded = false"));
  EXPECT_EQ(found->peak_bytes, limit);
}

// What saves more bytes is given up last.
TEST(RemedySearch, ParametersNeedNotBeKeptGathered) {
  JobConfig job = small_job();
  job.train = {.global_batch = 16, .micro_batch = 1};
  job.parallel.zero = 3;
  const auto peak_with = [&](bool unsharded, bool kept) {
    JobConfig changed = job;
    changed.parallel.accumulate_unsharded = unsharded;
    changed.parallel.keep_gathered = kept;
    return largest_peak(changed, 2);
  };
  const std::int64_t neither = largest_peak(job, 2), parameters = peak_with(false, true);
  ASSERT_EQ(neither, peak_with(false, false));
  ASSERT_GT(parameters, neither);
  ASSERT_GT(peak_with(true, true), parameters);
  job.parallel.accumulate_unsharded = true;
  job.parallel.keep_gathered = true;
  const auto changes_within = [&](std::int64_t limit) {
    RemedySearch search(job, build_blocks(job.model), 2, limit);
    const auto found = search.run();
    return found ? found->changes : std::vector<std::string>();
  };
  EXPECT_THAT(changes_within(parameters), ElementsAre("parallel.accumulate_unsharded = false"));
  EXPECT_THAT(changes_within(neither),
              ElementsAre("parallel.accumulate_unsharded = false", "parallel.keep_gathered = false"));
}

TEST(RemedySearch, ARecordedStepGivesWayToMoreRanks) {
  JobConfig job = small_job();
  job.parallel.cuda_graph = true;
  job.parallel.recompute_every = 1;
  job.train.micro_batch = 1;
  JobConfig sharded = job;
  sharded.parallel.cuda_graph = false;
  sharded.parallel.zero = 3;
  RemedySearch search(job, build_blocks(job.model), 1, largest_peak(sharded, 12));
  const auto found = search.run();
  ASSERT_TRUE(found);
  EXPECT_GT(found->num_ranks, 1);
  EXPECT_FALSE(found->config.parallel.cuda_graph);
  EXPECT_THAT(found->changes, ::testing::Contains("parallel.cuda_graph = false"));
}

// More than a thousand layouts, steps of up to a thousand micro-batches of 13e9 parameters.
TEST(RemedySearch, LargeJobsTakeSeconds) {
  JobConfig job;
  job.data.kind = DataKind::kSynthetic;
  job.model.size = "13b";
  job.precision.mode = PrecisionMode::kBf16;
  job.train = {.global_batch = 1024, .micro_batch = 16};
  job = resolve(job);
  const auto blocks = build_blocks(job.model);
  for (const std::int64_t gib : {2, 30, 300}) {
    [[maybe_unused]] const std::clock_t start = std::clock();  // of this process: the machine may be busy
    RemedySearch search(job, blocks, 1, gib << 30);
    const auto found = search.run();
    EXPECT_EQ(found.has_value(), gib > 2);
    if (!found) {
      EXPECT_GT(search.smallest().peak_bytes, gib << 30);
    }
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10.0) << gib << " GiB";
#endif
  }
}

}  // namespace
}  // namespace trireme
