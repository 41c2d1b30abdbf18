// Compares with an enumeration of all cuts.
#include "parallel/foresee/memory_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <random>

#include "models/gpt.h"
#include "parallel/layout/block_work.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double slowest_of(const StageMap& cut, const CutQuestion& question) {
  return std::ranges::max(chunk_costs(cut, question.costs));
}

bool fits(const StageMap& cut, const CutQuestion& question) {
  for (int stage = 0; stage < question.pipeline; ++stage) {
    if (question.bytes(cut, stage) > question.limit_bytes) return false;
  }
  return true;
}

/// The smallest slowest chunk among all cuts that fit.
double least_of_all(const CutQuestion& question) {
  const int num_blocks = static_cast<int>(question.costs.size());
  const int num_chunks = question.pipeline * question.chunks;
  double least = kInfinite;
  StageMap cut{.pipeline = question.pipeline,
               .bounds = std::vector<int>(static_cast<std::size_t>(num_chunks) + 1)};
  cut.bounds.back() = num_blocks;
  const auto place = [&](const auto& self, int chunk) -> void {
    if (chunk == num_chunks) {
      const double slowest = slowest_of(cut, question);
      if (slowest < least && fits(cut, question)) least = slowest;
      return;
    }
    for (int first = cut.first_unit(chunk - 1) + 1; first <= num_blocks - num_chunks + chunk; ++first) {
      cut.bounds[static_cast<std::size_t>(chunk)] = first;
      self(self, chunk + 1);
    }
  };
  place(place, 1);
  return least;
}

/// Times whose sums are exact.
std::vector<double> random_times(int count, std::mt19937& random, int different) {
  std::vector<double> times;
  for (int b = 0; b < count; ++b) times.push_back(0.25 * (1 + static_cast<int>(random() % different)));
  return times;
}

std::vector<int> all_different(int count) {
  std::vector<int> kinds;
  for (int b = 0; b < count; ++b) kinds.push_back(b);
  return kinds;
}

struct Sizes {
  int blocks, pipeline, chunks;
};
constexpr Sizes kSizes[] = {{5, 2, 1},  {9, 4, 1},  {13, 5, 1}, {4, 2, 2},  {9, 2, 2},
                            {12, 2, 3}, {12, 3, 2}, {13, 2, 4}, {13, 4, 2}, {14, 3, 3}};

// Bytes follow a schedule, in which earlier chunks keep more micro-batches. With recomputed blocks, a chunk
// with a full segment may need more than a chunk with one more block. With one chunk per rank and no
// recompute the search is exact.
TEST(MemoryCut, IsTheFastestThatFitsOrNearIt) {
  std::mt19937 random(11);
  int num_fitting = 0, num_other = 0, num_missed = 0;
  for (const Sizes& sizes : kSizes) {
    for (int trial = 0; trial < 16; ++trial) {
      const bool recomputes = trial % 4 == 3;
      CutQuestion question{.costs = random_times(sizes.blocks, random, trial % 2 == 0 ? 40 : 2),
                           .pipeline = sizes.pipeline,
                           .chunks = sizes.chunks,
                           .kinds = all_different(sizes.blocks),
                           .grows = !recomputes};
      std::vector<int> bytes;
      for (const double time : question.costs) {
        bytes.push_back(trial % 3 == 0 ? 1 : 1 + static_cast<int>(time * 4));
      }
      if (trial % 3 == 0) question.kinds.assign(question.kinds.size(), 0);
      question.bytes = [&](const StageMap& cut, int stage) {
        std::int64_t sum = 0;
        for (int chunk = stage; chunk < cut.num_chunks(); chunk += cut.pipeline) {
          const int length = cut.end_unit(chunk) - cut.first_unit(chunk);
          if (recomputes && length % 2 == 0) sum += 3;
          for (int b = cut.first_unit(chunk); b < cut.end_unit(chunk); ++b) {
            sum += bytes[static_cast<std::size_t>(b)] * (2 * cut.num_chunks() - chunk);
          }
        }
        return sum;
      };
      const StageMap even = cut_evenly(question.costs, sizes.pipeline, sizes.chunks);
      std::int64_t largest = 0;
      for (int stage = 0; stage < sizes.pipeline; ++stage) {
        largest = std::max(largest, question.bytes(even, stage));
      }
      question.limit_bytes = largest * (80 + 3 * trial) / 100;
      const double least = least_of_all(question);
      const MemoryCut found = cut_within_memory(question);
      const bool is_exact = sizes.chunks == 1 && !recomputes;
      EXPECT_EQ(found.fastest.cut, even);
      EXPECT_EQ(found.fastest.bytes, largest);
      EXPECT_LE(found.closest.bytes, largest);
      EXPECT_EQ(found.is_fastest, is_exact || (found.cut && *found.cut == even));
      EXPECT_TRUE(!is_exact || found.cut.has_value() == (least < kInfinite));
      num_fitting += least < kInfinite;
      num_missed += least < kInfinite && !found.cut;
      if (!found.cut) continue;
      num_other += *found.cut != even;
      EXPECT_TRUE(fits(*found.cut, question));
      const double slowest = slowest_of(*found.cut, question);
      EXPECT_TRUE(!found.is_fastest || slowest == least);
      EXPECT_LT(slowest, 1.34 * least);
    }
  }
  EXPECT_GT(num_fitting, 100);
  EXPECT_GT(num_other, 15);
  EXPECT_LE(num_missed, num_fitting / 10);
}

// Chunks of many unequal blocks, and memory that requires some to be short: the search ends near the bound.
TEST(MemoryCut, ComesNearTheBoundWhereThereAreTooManyCuts) {
  std::mt19937 random(3);
  CutQuestion question{.costs = random_times(96, random, 1000),
                       .pipeline = 4,
                       .chunks = 4,
                       .kinds = all_different(96),
                       .bytes =
                           [](const StageMap& cut, int stage) {
                             std::int64_t num_blocks = stage == 0 ? 5 : 0;
                             for (int chunk = stage; chunk < 16; chunk += 4) {
                               num_blocks += cut.end_unit(chunk) - cut.first_unit(chunk);
                             }
                             return num_blocks;
                           },
                       .limit_bytes = 26};
  const MemoryCut found = cut_within_memory(question);
  ASSERT_TRUE(found.cut);
  EXPECT_TRUE(fits(*found.cut, question));
  EXPECT_LT(slowest_of(*found.cut, question), 1.1 * slowest_of(found.fastest.cut, question));
}

// Each query is a slow prediction, and early stages are short of memory.
TEST(MemoryCut, OfManyTwinsIsFoundWithFewQuestions) {
  constexpr int kBlocks = 402, kStages = 16;
  CutQuestion question{
      .costs = std::vector<double>(kBlocks, 2.0), .pipeline = kStages, .kinds = std::vector<int>(kBlocks, 1)};
  question.kinds.front() = 0, question.kinds.back() = kBlocks - 1;
  question.costs.front() = 0.0, question.costs.back() = 3.0;
  int asked = 0;
  question.bytes = [&](const StageMap& cut, int stage) -> std::int64_t {
    ++asked;
    return (kStages - stage) * (cut.end_unit(stage) - cut.first_unit(stage));
  };
  for (const int limit : {100, 300, 400}) {
    question.limit_bytes = limit;
    // Blocks that all stages together may hold: limit / 16, limit / 15, ..., limit / 1.
    EXPECT_EQ(cut_within_memory(question).cut.has_value(), limit >= 300) << limit;
  }
  EXPECT_LE(asked, 3 * kStages * 20);
}

// See [Note: what a cut can move]: eight equal blocks, of which a first stage keeps three times as much.
TEST(MemoryCut, MayFitWhereBlocksNeedLessElsewhere) {
  const std::vector<std::int64_t> halves = {4 * 30, 4 * 10};
  EXPECT_TRUE(may_be_cut_within(halves, 60));  // two and six blocks; the mean is 80
  EXPECT_FALSE(may_be_cut_within(halves, 59));
  EXPECT_TRUE(may_be_cut_within({10, 10}, 10));
  EXPECT_FALSE(may_be_cut_within({10, 10}, 9));
}

TEST(MemoryCut, EndsWhereNothingFits) {
  for (const int chunks : {1, 2}) {
    CutQuestion question{.costs = std::vector<double>(9, 1.0),
                         .pipeline = 2,
                         .chunks = chunks,
                         .kinds = all_different(9),
                         .bytes = [](const StageMap&, int stage) { return std::int64_t{10} + stage; },
                         .limit_bytes = 10};
    const MemoryCut found = cut_within_memory(question);
    EXPECT_FALSE(found.cut);
    EXPECT_EQ(found.closest.stage, 1);
    EXPECT_EQ(found.closest.bytes, 11);
    question.costs.resize(1), question.kinds.resize(1);
    EXPECT_THROW(cut_within_memory(question), Error);
  }
}

// 402 blocks in 16 stages, and in 8 stages of two chunks: found, or refused, within seconds.
TEST(MemoryCut, OfAVeryDeepModelTakesSeconds) {
  // Assigned member by member: GCC 12 warns of uninitialized maps in a braced initializer.
  PlannedJob job;
  job.blocks = std::make_shared<const BlockList>(
      build_gpt({.layers = 400, .hidden = 32, .heads = 2, .vocab = 64, .seq_len = 16}));
  job.options.global_batch = 16;
  job.options.micro_batch = 1;
  job.options.layout.pipeline = 16;
  job.sample = {.input = {16}, .target = {16}};
  job.num_ranks = 16;
  const std::vector<double> costs = work_costs(*job.blocks, job.sample);
  for (const int chunks : {1, 2}) {
    if (chunks > 1) {
      job.options.layout = {.pipeline = 8, .schedule = PipelineSchedule::kInterleaved, .chunks = chunks};
      job.num_ranks = 8;
    }
    const std::int64_t needed = cut_within_memory(job, costs, 0).fastest.bytes;
    for (const int percent : {98, 90, 80}) {
      const std::clock_t start = std::clock();  // CPU time of this process, because the machine may be busy
      const std::int64_t limit = needed * percent / 100;
      const MemoryCut found = cut_within_memory(job, costs, limit);
      EXPECT_LE(found.closest.bytes, needed);
      if (found.cut) {
        job.options.layout.cut = found.cut->first_units();
        EXPECT_LE(predict_largest_step(job.blocks, job.options, job.sample, job.num_ranks).memory.peak_total,
                  limit);
      }
      EXPECT_EQ(found.cut.has_value(), percent > 80) << chunks << " " << percent;
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, 10.0) << chunks << " " << percent;
    }
  }
}

}  // namespace
}  // namespace trireme
