// Against all cuts, one by one.
#include "parallel/foresee/chunked_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double slowest_of(const StageCut& cut, const ChunkedCutCosts& costs) {
  return std::ranges::max(stage_costs(cut, costs.blocks));
}

bool all_fit(const StageCut& cut, const ChunkedCutCosts& costs) {
  for (int rank = 0; rank < costs.ranks; ++rank) {
    if (!costs.fits(cut, rank)) return false;
  }
  return true;
}

/// The least slowest chunk of all cuts that fit.
double least_of_all(const ChunkedCutCosts& costs) {
  const int num_blocks = static_cast<int>(costs.blocks.size()), num_stages = costs.ranks * costs.chunks;
  double least = kInfinite;
  StageCut cut{.firsts = std::vector<int>(static_cast<std::size_t>(num_stages)), .num_blocks = num_blocks};
  const auto place = [&](const auto& self, int stage) -> void {
    if (stage == num_stages) {
      const double slowest = slowest_of(cut, costs);
      if (slowest < least && all_fit(cut, costs)) least = slowest;
      return;
    }
    for (int first = cut.first(stage - 1) + 1; first <= num_blocks - num_stages + stage; ++first) {
      cut.firsts[static_cast<std::size_t>(stage)] = first;
      self(self, stage + 1);
    }
  };
  place(place, 1);
  return least;
}

/// Times that sums do not round.
std::vector<double> random_times(int count, std::mt19937& random, int different) {
  std::vector<double> times;
  for (int b = 0; b < count; ++b) times.push_back(0.25 * (1 + static_cast<int>(random() % different)));
  return times;
}

struct Shape {
  int blocks, ranks, chunks;
};
constexpr Shape kShapes[] = {{4, 2, 2},  {9, 2, 2},  {12, 2, 3}, {12, 3, 2},
                             {13, 2, 4}, {13, 4, 2}, {14, 3, 3}};

// Bytes as of a schedule: earlier chunks and ranks keep more micro-batches.
TEST(ChunkedCut, IsTheQuickestThatFits) {
  std::mt19937 random(11);
  int num_fitting = 0, num_other = 0;
  for (const Shape& shape : kShapes) {
    for (int trial = 0; trial < 16; ++trial) {
      ChunkedCutCosts costs{.blocks = random_times(shape.blocks, random, trial % 2 == 0 ? 40 : 2),
                            .ranks = shape.ranks,
                            .chunks = shape.chunks};
      std::vector<int> bytes;
      for (const double time : costs.blocks) {
        bytes.push_back(trial % 3 == 0 ? 1 : 1 + static_cast<int>(time * 4));
        if (trial % 3 == 0) costs.kinds.push_back(0);
      }
      const auto needs = [&](const StageCut& cut, int rank) {
        int sum = 0;
        for (int stage = rank; stage < cut.num_stages(); stage += shape.ranks) {
          for (int b = cut.first(stage); b < cut.last(stage); ++b) {
            sum += bytes[static_cast<std::size_t>(b)] * (2 * cut.num_stages() - stage);
          }
        }
        return sum;
      };
      const StageCut even = cut_evenly({.blocks = costs.blocks}, shape.ranks * shape.chunks);
      int largest = 0;
      for (int rank = 0; rank < shape.ranks; ++rank) largest = std::max(largest, needs(even, rank));
      const int limit = largest * (80 + 3 * trial) / 100;
      costs.fits = [&](const StageCut& cut, int rank) { return needs(cut, rank) <= limit; };
      const double least = least_of_all(costs);
      const auto found = cut_into_chunks(costs);
      ASSERT_EQ(found.has_value(), least < kInfinite);
      if (!found) continue;
      ++num_fitting;
      num_other += found->slowest > found->bound;
      EXPECT_TRUE(all_fit(found->cut, costs));
      EXPECT_TRUE(found->is_least);
      EXPECT_EQ(found->slowest, least);
      EXPECT_EQ(found->slowest, slowest_of(found->cut, costs));
    }
  }
  EXPECT_GT(num_fitting, 20);
  EXPECT_GT(num_other, 10);
}

// Chunks of many unequal blocks, and memory that wants some to be short: the search ends, near the bound.
TEST(ChunkedCut, ComesNearTheBoundWhereThereAreTooManyCuts) {
  std::mt19937 random(3);
  ChunkedCutCosts costs{.blocks = random_times(96, random, 1000), .ranks = 4, .chunks = 4};
  costs.fits = [](const StageCut& cut, int rank) {
    int num_blocks = 0;
    for (int stage = rank; stage < 16; stage += 4) num_blocks += cut.last(stage) - cut.first(stage);
    return num_blocks <= (rank == 0 ? 21 : 26);
  };
  const auto found = cut_into_chunks(costs);
  ASSERT_TRUE(found);
  EXPECT_TRUE(all_fit(found->cut, costs));
  EXPECT_LT(found->slowest, 1.1 * found->bound);
}

TEST(ChunkedCut, ChunksAreEvenWhereMemorySuffices) {
  ChunkedCutCosts costs{.blocks = std::vector<double>(12, 1.0), .ranks = 2, .chunks = 3};
  costs.fits = [](const StageCut&, int) { return true; };
  const auto found = cut_into_chunks(costs);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cut.firsts, (std::vector<int>{0, 2, 4, 6, 8, 10}));
  costs.fits = [](const StageCut&, int rank) { return rank == 0; };
  EXPECT_FALSE(cut_into_chunks(costs));
  costs.blocks.resize(5);
  EXPECT_THROW(cut_into_chunks(costs), Error);
}

}  // namespace
}  // namespace trireme
