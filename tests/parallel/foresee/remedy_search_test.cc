#include "parallel/foresee/remedy_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "models/gpt.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

PlannedJob job_of(const GptConfig& model, std::int64_t global_batch, std::int64_t micro_batch) {
  return {.blocks = std::make_shared<const BlockList>(build_gpt(model)),
          .options = {.global_batch = global_batch, .micro_batch = micro_batch},
          .sample = {.input = {model.seq_len}, .target = {model.seq_len}}};
}

PlannedJob small_job(int num_ranks = 1, std::int64_t seq_len = 16) {
  PlannedJob job = job_of({.layers = 4, .hidden = 16, .heads = 2, .vocab = 40, .seq_len = seq_len}, 12, 4);
  job.num_ranks = num_ranks;
  return job;
}

std::int64_t largest_peak(const PlannedJob& job) {
  return predict_largest_step(job.blocks, job.options, job.sample, job.num_ranks).memory.peak_total;
}

/// The predicted peak of `job` after `edit`.
template <typename Edit>
std::int64_t peak_with(PlannedJob job, const Edit& edit) {
  edit(job);
  return largest_peak(job);
}

struct Tried {
  PlannedJob job;
  std::int64_t peak = 0;
};

// A reference for the search: predicts every layout completely, in the order of remedies. `job` must not use
// recompute; all segment lengths are tried.
std::vector<Tried> try_all(const PlannedJob& job) {
  const int stages = job.options.layout.pipeline;
  const std::int64_t batch = job.options.global_batch;
  const int num_blocks = static_cast<int>(job.blocks->size()),
            given_zero = static_cast<int>(job.options.layout.zero);
  std::vector<Tried> all;
  for (int ranks = job.num_ranks; ranks <= batch * stages; ++ranks) {
    if (ranks % stages != 0) continue;
    for (std::int64_t micro_batch = job.options.micro_batch; micro_batch >= 1; --micro_batch) {
      const std::int64_t round = micro_batch * ranks / stages;
      if (batch % round != 0) continue;
      const bool interleaved = job.options.layout.schedule == PipelineSchedule::kInterleaved;
      if (interleaved && batch / round < stages) continue;
      for (int k = num_blocks; k >= 1; --k) {
        for (int zero = given_zero; zero <= 3; ++zero) {
          if (ranks == stages && zero > given_zero) continue;
          Tried& tried = all.emplace_back(Tried{.job = job});
          tried.job.num_ranks = ranks;
          tried.job.options.micro_batch = micro_batch;
          tried.job.options.layout.recompute_every = k == num_blocks ? 0 : k;
          tried.job.options.layout.zero = static_cast<ZeroStage>(zero);
          tried.peak = largest_peak(tried.job);
        }
      }
    }
  }
  return all;
}

struct Case {
  const char* name;
  int ranks = 1;
  Layout layout;
  PrecisionMode precision = PrecisionMode::kFp32;
  std::int64_t seq_len = 16;  // longer: activations outweigh the state
  std::int64_t global_batch = 12, micro_batch = 4;
};

class EveryLimit : public ::testing::TestWithParam<Case> {};

TEST_P(EveryLimit, GivesTheFirstLayoutThatFits) {
  const Case& c = GetParam();
  PlannedJob job = small_job(c.ranks, c.seq_len);
  job.options.global_batch = c.global_batch;
  job.options.micro_batch = c.micro_batch;
  job.options.layout = c.layout;
  job.options.precision = Precision(c.precision);
  const std::vector<Tried> all = try_all(job);
  std::vector<std::int64_t> limits;
  for (const Tried& tried : all) limits.push_back(tried.peak);
  std::ranges::sort(limits);
  const std::int64_t least = limits.front();
  const std::size_t stride = limits.size() / 8 + 1;
  for (std::size_t i = 0; i < limits.size(); i += stride) {
    for (const std::int64_t limit : {limits[i], limits[i] - 1}) {
      const std::optional<Remedy> found = find_remedy(job, limit);
      const auto first = std::ranges::find_if(all, [&](const Tried& t) { return t.peak <= limit; });
      ASSERT_EQ(found.has_value(), first != all.end()) << limit;
      if (!found) {
        EXPECT_EQ(smallest_layout(job).peak_bytes, least);
        continue;
      }
      EXPECT_EQ(found->peak_bytes, first->peak) << limit;
      EXPECT_EQ(found->changes, changes_between(job, first->job));
      EXPECT_TRUE(changes_between(found->job, first->job).empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, EveryLimit,
    ::testing::Values(
        Case{"one_rank"}, Case{.name = "activations", .seq_len = 96},
        Case{.name = "sixty_micro_batches", .seq_len = 4, .global_batch = 60, .micro_batch = 1},
        Case{.name = "three_ranks_fp16", .ranks = 3, .precision = PrecisionMode::kFp16},
        Case{.name = "stages", .ranks = 2, .layout = {.pipeline = 2}},
        Case{.name = "chunks",
             .ranks = 2,
             .layout = {.pipeline = 2, .schedule = PipelineSchedule::kInterleaved, .chunks = 2}}),
    [](const auto& info) { return std::string(info.param.name); });

// The search does not only double the ranks: three, six and twelve ranks share twelve samples equally.
TEST(RemedySearch, RanksAreThoseThatShareTheBatchEvenly) {
  PlannedJob job = small_job(2);
  job.options.layout.zero = ZeroStage::kParameters;
  job.options.layout.recompute_every = 1;
  job.options.micro_batch = 1;
  for (const int ranks : {3, 4, 6, 12}) {
    const auto found = find_remedy(job, peak_with(job, [&](PlannedJob& j) { j.num_ranks = ranks; }));
    ASSERT_TRUE(found) << ranks;
    EXPECT_THAT(found->changes, ElementsAre(Change{"num_ranks", ranks}));
  }
}

// `sequence` comes before recompute.
TEST(RemedySearch, TensorRanksShareTheSequence) {
  PlannedJob job =
      job_of({.layers = 4, .hidden = 16, .heads = 4, .vocab = 40, .seq_len = 64, .tensor_chunks = 4}, 2, 2);
  job.num_ranks = job.options.layout.tensor = 4;
  const std::int64_t limit = peak_with(job, [](PlannedJob& j) { j.options.layout.sequence = true; });
  ASSERT_LT(limit, largest_peak(job));
  const auto found = find_remedy(job, limit);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->changes, ElementsAre(Change{"sequence", true}));
  EXPECT_EQ(found->peak_bytes, limit);
  // Four ranks cannot share 62 tokens equally.
  PlannedJob odd = job;
  odd.sample = {.input = {62}, .target = {62}};
  const auto otherwise = find_remedy(odd, limit);
  ASSERT_TRUE(otherwise);
  EXPECT_FALSE(otherwise->job.options.layout.sequence);
}

// With one sample per batch, tensor ranks share a model that does not fit on one rank.
TEST(RemedySearch, TensorRanksShareWhatIsTooLargeForOne) {
  PlannedJob job =
      job_of({.layers = 4, .hidden = 64, .heads = 4, .vocab = 40, .seq_len = 4, .tensor_chunks = 4}, 1, 1);
  const std::int64_t limit = peak_with(job, [](PlannedJob& j) {
    j.options.layout.tensor = 4;
    j.num_ranks = 4;
  });
  ASSERT_GT(largest_peak(job), 2 * limit);
  const auto found = find_remedy(job, limit);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->changes, ElementsAre(Change{"tensor", 4}, Change{"num_ranks", 4}));
  EXPECT_EQ(found->peak_bytes, limit);
  // The same without additional ranks.
  job.num_ranks = 4;
  job.options.layout.tensor = 2;
  job.options.global_batch = 2;
  job.options.layout.zero = ZeroStage::kParameters;
  job.options.layout.recompute_every = 1;
  const std::int64_t with_two = largest_peak(job);
  const std::int64_t with_four = peak_with(job, [](PlannedJob& j) { j.options.layout.tensor = 4; });
  ASSERT_LT(with_four, with_two);
  const auto with_same_ranks = find_remedy(job, with_four);
  ASSERT_TRUE(with_same_ranks);
  EXPECT_THAT(with_same_ranks->changes, ElementsAre(Change{"tensor", 4}));
  job.blocks = std::make_shared<const BlockList>(
      build_gpt({.layers = 4, .hidden = 64, .heads = 4, .vocab = 40, .seq_len = 4}));
  job.num_ranks = 1;
  job.options = {.global_batch = 1, .micro_batch = 1};
  EXPECT_FALSE(find_remedy(job, limit));
}

// With 132 blocks, segments of 3 need less than any power of two.
TEST(RemedySearch, RecomputeTriesSegmentsOfManyLengths) {
  const PlannedJob job =
      job_of({.layers = 130, .hidden = 32, .heads = 1, .vocab = 16, .seq_len = 4096}, 1, 1);
  const auto with_segments = [&](int k) {
    return peak_with(job, [&](PlannedJob& j) { j.options.layout.recompute_every = k; });
  };
  for (const int k : {1, 2, 4, 8, 16}) ASSERT_GT(with_segments(k), with_segments(3)) << k;
  const auto found = find_remedy(job, with_segments(3));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->changes, ElementsAre(Change{"recompute_every", 3}));
}

// With a large head and small blocks, one segment of all blocks but the head needs least memory.
TEST(RemedySearch, RecomputeTriesOneSegmentOfAllButTheLastBlock) {
  const PlannedJob job = job_of({.layers = 6, .hidden = 16, .heads = 1, .vocab = 32768, .seq_len = 64}, 1, 1);
  const std::int64_t limit = peak_with(job, [](PlannedJob& j) { j.options.layout.recompute_every = 7; });
  ASSERT_GT(largest_peak(job), limit);
  const auto found = find_remedy(job, limit);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->changes, ElementsAre(Change{"recompute_every", 7}));
}

TEST(RemedySearch, GradientsNeedNotBeKeptWhole) {
  PlannedJob job = small_job(2);
  job.options.global_batch = 16;
  job.options.micro_batch = 1;
  job.options.layout.zero = ZeroStage::kGradients;
  const std::int64_t limit = largest_peak(job);
  job.options.layout.accumulate_unsharded = true;
  ASSERT_GT(largest_peak(job), limit);
  const auto found = find_remedy(job, limit);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->changes, ElementsAre(Change{"accumulate_unsharded", false}));
  EXPECT_EQ(found->peak_bytes, limit);
}

// The choice that saves more bytes is given up last.
TEST(RemedySearch, ParametersNeedNotBeKeptGathered) {
  PlannedJob job = small_job(2);
  job.options.global_batch = 16;
  job.options.micro_batch = 1;
  job.options.layout.zero = ZeroStage::kParameters;
  const auto peak_of = [&](bool unsharded, bool kept) {
    return peak_with(job, [&](PlannedJob& j) {
      j.options.layout.accumulate_unsharded = unsharded;
      j.options.layout.keep_gathered = kept;
    });
  };
  const std::int64_t neither = peak_of(false, false), parameters = peak_of(false, true);
  ASSERT_GT(parameters, neither);
  ASSERT_GT(peak_of(true, true), parameters);
  job.options.layout.accumulate_unsharded = true;
  job.options.layout.keep_gathered = true;
  const auto changes_within = [&](std::int64_t limit) {
    const auto found = find_remedy(job, limit);
    return found ? found->changes : std::vector<Change>();
  };
  const Change gradients{"accumulate_unsharded", false};
  EXPECT_THAT(changes_within(parameters), ElementsAre(gradients));
  EXPECT_THAT(changes_within(neither), ElementsAre(gradients, Change{"keep_gathered", false}));
}

// A smaller cache only makes data waits longer, so it is tried before any other change.
TEST(RemedySearch, ASmallerDataCacheComesFirst) {
  PlannedJob job = small_job();
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const std::int64_t without = largest_peak(job);
  job.options.data_cache_bytes = 8 * kMiB;
  for (const std::int64_t left : {0, 1, 3}) {
    const auto found = find_remedy(job, without + left * kMiB + 5);
    ASSERT_TRUE(found);
    EXPECT_THAT(found->changes, ElementsAre(Change{"data_cache_bytes", left * kMiB}));
    EXPECT_EQ(found->peak_bytes, without + left * kMiB);
  }
}

// More than a thousand layouts, with steps of up to a thousand micro-batches of 13e9 parameters.
TEST(RemedySearch, LargeJobsTakeSeconds) {
  PlannedJob job = job_of(gpt_config_for_size("13b"), 1024, 16);
  job.options.precision = Precision(PrecisionMode::kBf16);
  for (const std::int64_t gib : {2, 30, 300, 400, 500, 600}) {
    [[maybe_unused]] const std::clock_t start = std::clock();  // CPU time: the machine may be busy
    const auto found = find_remedy(job, gib << 30);
    EXPECT_EQ(found.has_value(), gib > 2);
    if (!found) {
      EXPECT_GT(smallest_layout(job).peak_bytes, gib << 30);
    }
#if !defined(__SANITIZE_ADDRESS__)
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 10.0) << gib << " GiB";
#endif
  }
}

}  // namespace
}  // namespace trireme
