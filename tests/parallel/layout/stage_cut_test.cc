#include "parallel/layout/stage_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

std::vector<int> lengths_of(const StageMap& cut) {
  std::vector<int> lengths;
  for (int c = 0; c < cut.num_chunks(); ++c) lengths.push_back(cut.end_unit(c) - cut.first_unit(c));
  return lengths;
}

StageMap cut_at(const std::vector<int>& first_units, int num_units, int pipeline) {
  return StageMap::given({.num_units = num_units, .pipeline = pipeline}, first_units);
}

TEST(StageCut, AtGivenBoundaries) {
  const StageMap cut = cut_at({2, 3}, 6, 3);
  EXPECT_EQ(lengths_of(cut), (std::vector<int>{2, 1, 3}));
  EXPECT_EQ(cut.first_units(), (std::vector<int>{2, 3}));
  std::vector<int> stages;
  for (int block = 0; block < 6; ++block) stages.push_back(cut.stage_of(block));
  EXPECT_EQ(stages, (std::vector<int>{0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(lengths_of(cut_at({}, 6, 1)), (std::vector<int>{6}));
}

TEST(StageCut, NamesWhatIsWrongWithGivenBoundaries) {
  EXPECT_THAT(error_of([] {
                cut_at({3, 2}, 6, 3);
              }),
              HasSubstr("Layout::cut = [3, 2] must ascend from 1 or more to at most 5"));
  EXPECT_THAT(error_of([] { cut_at({2, 2}, 6, 3); }), HasSubstr("cut = [2, 2] must ascend"));
  EXPECT_THAT(error_of([] { cut_at({0, 2}, 6, 3); }), HasSubstr("cut = [0, 2] must ascend"));
  EXPECT_THAT(error_of([] { cut_at({2, 6}, 6, 3); }), HasSubstr("at most 5, the last block"));
  EXPECT_THAT(error_of([] { cut_at({2}, 6, 3); }), HasSubstr("cut = [2] makes 2 stages"));
  EXPECT_THAT(error_of([] { cut_at({1, 2, 3}, 3, 4); }), HasSubstr("want 4 blocks or more, the model has 3"));
}

TEST(StageCut, BalancesBlocks) {
  EXPECT_EQ(lengths_of(cut_evenly(std::vector<double>(8, 1.0), 4)), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(lengths_of(cut_evenly(std::vector<double>(9, 1.0), 4)), (std::vector<int>{2, 2, 2, 3}));
  EXPECT_EQ(lengths_of(cut_evenly(std::vector<double>(12, 1.0), 2, 3)), (std::vector<int>(6, 2)));
  // A light embedding and a head as expensive as three blocks.
  EXPECT_EQ(lengths_of(cut_evenly({0.1, 1, 1, 1, 1, 1, 1, 3}, 3)), (std::vector<int>{4, 3, 1}));
  EXPECT_THAT(error_of([] { cut_evenly({1, 2}, 3); }), HasSubstr("Layout::pipeline = 3"));
}

TEST(StageCut, LeavesRefusedRangesOut) {
  const auto cut = [](int most, int pipeline) {
    return cut_evenly_without([=](int first, int last, int) { return last - first > most; }, {1, 1, 1, 1},
                              {.num_units = 4, .pipeline = pipeline});
  };
  EXPECT_FALSE(cut(1, 2));
  EXPECT_EQ(lengths_of(*cut(1, 4)), (std::vector<int>{1, 1, 1, 1}));
  const auto is_refused = [](int first, int last, int) { return first == 0 && last == 1; };
  EXPECT_EQ(lengths_of(*cut_evenly_without(is_refused, {9, 1, 1, 1}, {.num_units = 4, .pipeline = 2})),
            (std::vector<int>{2, 2}));
}

// Enumerates every cut, by ascending boundaries, with the measures that cut_evenly documents.
std::optional<StageMap> best_of_all(const std::vector<double>& costs, int pipeline,
                                    const RangeRefused& refused) {
  const int n = static_cast<int>(costs.size());
  std::optional<StageMap> best;
  std::tuple<double, double> best_measure;
  std::vector<int> inner(static_cast<std::size_t>(n) - 1, 0);  // blocks that begin a stage
  std::fill_n(inner.begin(), pipeline - 1, 1);
  do {
    StageMap cut{.pipeline = pipeline, .bounds = {0}};
    for (int block = 1; block < n; ++block) {
      if (inner[static_cast<std::size_t>(block) - 1] == 1) cut.bounds.push_back(block);
    }
    cut.bounds.push_back(n);
    bool fits = true;
    double slowest = 0, squares = 0;
    for (int s = 0; s < pipeline; ++s) fits = fits && !refused(cut.first_unit(s), cut.end_unit(s), s);
    for (const double cost : chunk_costs(cut, costs)) {
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
  int num_refused = 0, num_limited = 0;
  for (int i = 0; i < 600; ++i) {
    const int n = draw(1, 10), pipeline = draw(1, n);
    std::vector<double> costs;
    std::vector<int> bytes;
    for (int block = 0; block < n; ++block) {
      costs.push_back(draw(0, 12));  // integers: sums are exact, so that ties are ties
      bytes.push_back(draw(1, 20));
    }
    const int limit = draw(20, 120);
    const auto refused = [&](int first, int last, int stage) {
      int sum = 0;
      for (int b = first; b < last; ++b) sum += bytes[static_cast<std::size_t>(b)];
      return sum * (pipeline - stage) > limit;
    };
    const auto expected = best_of_all(costs, pipeline, refused);
    EXPECT_EQ(cut_evenly_without(refused, costs, {.num_units = n, .pipeline = pipeline}), expected);
    num_refused += !expected;
    num_limited += expected && *expected != cut_evenly(costs, pipeline);
  }
  EXPECT_GT(num_refused, 20);  // the drawn limits matter
  EXPECT_GT(num_limited, 20);
}

}  // namespace
}  // namespace trireme
