#include "parallel/foresee/stage_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "no error";
}

std::vector<int> lengths_of(const StageCut& cut) {
  std::vector<int> lengths;
  for (int stage = 0; stage < cut.num_stages(); ++stage)
    lengths.push_back(cut.last(stage) - cut.first(stage));
  return lengths;
}

TEST(StageCut, AtGivenBoundaries) {
  const StageCut cut = cut_at({2, 3}, 6, 3);
  EXPECT_EQ(lengths_of(cut), (std::vector<int>{2, 1, 3}));
  std::vector<int> stages;
  for (int block = 0; block < 6; ++block) stages.push_back(cut.stage_of(block));
  EXPECT_EQ(stages, (std::vector<int>{0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(lengths_of(cut_at({}, 6, 1)), (std::vector<int>{6}));
}

TEST(StageCut, NamesWhatIsWrongWithGivenBoundaries) {
  EXPECT_THAT(error_of([] {
                cut_at({3, 2}, 6, 3);
              }),
              HasSubstr("parallel.pipeline_cut: boundary 2 follows 3"));
  EXPECT_THAT(error_of([] { cut_at({2, 2}, 6, 3); }), HasSubstr("boundary 2 follows 2"));
  EXPECT_THAT(error_of([] { cut_at({0, 2}, 6, 3); }), HasSubstr("boundary 0 follows 0"));
  EXPECT_THAT(error_of([] { cut_at({2, 6}, 6, 3); }), HasSubstr("boundary 6 is beyond the last of 6 blocks"));
  EXPECT_THAT(error_of([] { cut_at({2}, 6, 3); }),
              HasSubstr("parallel.pipeline_cut has 1 boundaries; 3 stages have 2"));
  EXPECT_THAT(error_of([] {
                cut_at({1, 2, 3}, 3, 4);
              }),
              HasSubstr("4 stages, more than the model's 3 blocks"));
}

TEST(StageCut, BalancesBlocks) {
  EXPECT_EQ(lengths_of(cut_evenly({.blocks = std::vector<double>(8, 1.0)}, 4)),
            (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(lengths_of(cut_evenly({.blocks = std::vector<double>(9, 1.0)}, 4)),
            (std::vector<int>{2, 2, 2, 3}));
  // A light embedding and a head as expensive as three blocks.
  EXPECT_EQ(lengths_of(cut_evenly({.blocks = {0.1, 1, 1, 1, 1, 1, 1, 3}}, 3)), (std::vector<int>{4, 3, 1}));
  EXPECT_THAT(error_of([] { cut_evenly({.blocks = {1, 2}}, 3); }), HasSubstr("parallel.pipeline"));
}

TEST(StageCut, SaysWhereNothingFits) {
  CutCosts costs{.blocks = {1, 1, 1, 1},
                 .bytes = [](int first, int last, int) { return std::int64_t{100} * (last - first); },
                 .memory_limit = 150,
                 .block_names = {"embedding", "blocks.0", "blocks.1", "head"}};
  EXPECT_THAT(
      error_of([&] { cut_evenly(costs, 2); }),
      HasSubstr("no cut into 2 stages fits the 150 bytes of parallel.memory_limit: where the largest stage "
                "is smallest, stage 0 (blocks embedding to blocks.0) needs 200"));
  EXPECT_EQ(lengths_of(cut_evenly(costs, 4)), (std::vector<int>{1, 1, 1, 1}));
  costs.bytes = [](int first, int last, int) { return first == 0 && last == 1 ? std::int64_t{160} : 10; };
  costs.blocks = {9, 1, 1, 1};
  EXPECT_EQ(lengths_of(cut_evenly(costs, 2)), (std::vector<int>{2, 2}));
}

// Every cut, by its boundaries in ascending order; the same measures as cut_evenly promises.
std::optional<StageCut> best_of_all(const CutCosts& costs, int num_stages) {
  const int n = static_cast<int>(costs.blocks.size());
  std::optional<StageCut> best;
  std::tuple<double, double> best_measure;
  std::vector<int> inner(static_cast<std::size_t>(n) - 1, 0);  // which blocks begin a stage
  std::fill_n(inner.begin(), num_stages - 1, 1);
  do {
    StageCut cut{{0}, n};
    for (int block = 1; block < n; ++block) {
      if (inner[static_cast<std::size_t>(block) - 1] == 1) cut.firsts.push_back(block);
    }
    bool fits = true;
    double slowest = 0, squares = 0;
    for (int s = 0; s < num_stages; ++s) {
      fits = fits && costs.bytes(cut.first(s), cut.last(s), s) <= costs.memory_limit;
      const auto begin = costs.blocks.begin();
      const double cost = std::accumulate(begin + cut.first(s), begin + cut.last(s), 0.0);
      slowest = std::max(slowest, cost);
      squares += cost * cost;
    }
    if (fits && (!best || std::tuple(slowest, squares) < best_measure)) {
      best = cut;
      best_measure = {slowest, squares};
    }
  } while (std::ranges::prev_permutation(inner).found);
  return best;
}

TEST(StageCut, IsTheBestOfAll) {
  std::mt19937 random(11);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int refused = 0, limited = 0;
  for (int i = 0; i < 600; ++i) {
    const int n = draw(1, 10), num_stages = draw(1, n);
    CutCosts costs;
    std::vector<int> bytes, kinds;
    const bool has_twins = i % 2 == 1;
    for (int block = 0; block < n; ++block) {
      const int twin = has_twins && block > 0 ? draw(0, block) : block;  // itself: none
      costs.blocks.push_back(twin < block ? costs.blocks[static_cast<std::size_t>(twin)]
                                          : draw(0, 12));  // integers: sums are exact, so that ties are ties
      bytes.push_back(twin < block ? bytes[static_cast<std::size_t>(twin)] : draw(1, 20));
      kinds.push_back(twin < block ? kinds[static_cast<std::size_t>(twin)] : block);
    }
    // Early stages keep more micro-batches alive.
    costs.bytes = [&](int first, int last, int stage) {
      return std::int64_t{num_stages - stage} *
             std::accumulate(bytes.begin() + first, bytes.begin() + last, std::int64_t{0});
    };
    costs.memory_limit = draw(0, 3) == 0 ? 100000 : draw(10, 150);
    const auto expected = best_of_all(costs, num_stages);
    SCOPED_TRACE(fmt::format("case {}: {} blocks, {} stages", i, n, num_stages));
    int asked = 0;
    const auto fits = [&](const StageCut& cut, int stage) {
      return costs.bytes(cut.first(stage), cut.last(stage), stage) <= costs.memory_limit;
    };
    const auto too_large = [&](const StageCut& cut) {
      ++asked;
      std::vector<int> stages;
      for (int s = 0; s < num_stages; ++s) {
        if (!fits(cut, s)) stages.push_back(s);
      }
      return stages;
    };
    const auto asking =
        cut_within_memory(costs.blocks, num_stages, {.too_large = too_large, .fits = fits, .kinds = kinds});
    EXPECT_EQ(asking.has_value(), expected.has_value());
    EXPECT_LE(asked, n * n * num_stages);
    if (asking && expected) {
      EXPECT_EQ(asking->firsts, expected->firsts);
    }
    if (!expected) {
      ++refused;
      EXPECT_THAT(error_of([&] { cut_evenly(costs, num_stages); }), HasSubstr("no cut"));
      continue;
    }
    const StageCut found = cut_evenly(costs, num_stages);
    EXPECT_EQ(found.firsts, expected->firsts);
    const CutCosts unlimited{.blocks = costs.blocks};
    if (cut_evenly(unlimited, num_stages) != found) ++limited;
  }
  EXPECT_GT(refused, 20);  // the drawn limits matter
  EXPECT_GT(limited, 20);
}

// Each answer is a prediction that takes a while, and early stages are short of memory.
TEST(StageCut, OfManyTwinsIsFoundWithFewQuestions) {
  constexpr int kBlocks = 402, kStages = 16;
  std::vector<int> kinds(kBlocks, 1);
  kinds.front() = 0, kinds.back() = kBlocks - 1;
  std::vector<double> costs(kBlocks, 2.0);
  costs.front() = 0.0, costs.back() = 3.0;
  int cuts = 0, ranges = 0;
  const auto fits_in = [&](const StageCut& cut, int stage, int limit) {
    return (kStages - stage) * (cut.last(stage) - cut.first(stage)) <= limit;
  };
  for (const int limit : {100, 300, 400}) {
    const auto found = cut_within_memory(
        costs, kStages,
        {.too_large =
             [&](const StageCut& cut) {
               ++cuts;
               std::vector<int> stages;
               for (int s = 0; s < kStages; ++s) {
                 if (!fits_in(cut, s, limit)) stages.push_back(s);
               }
               return stages;
             },
         .fits = [&](const StageCut& cut, int stage) { return ++ranges, fits_in(cut, stage, limit); },
         .kinds = kinds});
    // Blocks that all stages may hold together: limit / 16 and limit / 15 and ... and limit / 1.
    EXPECT_EQ(found.has_value(), limit >= 300) << limit;
  }
  EXPECT_LE(cuts, 3 * kStages);
  EXPECT_LE(ranges, 3 * kStages * 9);
}

}  // namespace
}  // namespace trireme
