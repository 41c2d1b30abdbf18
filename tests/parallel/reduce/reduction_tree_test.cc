#include "parallel/reduce/reduction_tree.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// The canonical expression over leaves [first, first + count), directly from its definition.
std::string expression(std::int64_t first, std::int64_t count) {
  if (count == 1) return std::to_string(first);
  std::int64_t half = 1;
  while (half * 2 < count) half *= 2;
  const bool complete = half * 2 == count;
  if (complete) return "(" + expression(first, half) + "+" + expression(first + half, half) + ")";
  return "(" + expression(first, half) + "+" + expression(first + half, count - half) + ")";
}

// The expression that ranks with these run lengths compute.
std::string expression_of_ranks(const std::vector<std::int64_t>& runs) {
  std::vector<Subtree> partials;
  std::vector<std::string> buffers;
  std::int64_t first = 0;
  for (const std::int64_t run : runs) {
    ReductionStack stack;
    std::vector<std::string> sums;
    for (std::int64_t leaf = first; leaf < first + run; ++leaf) {
      sums.push_back(std::to_string(leaf));
      for (int joins = stack.push({leaf, 0}); joins > 0; --joins) {
        const std::string right = sums.back();
        sums.pop_back();
        sums.back() = "(" + sums.back() + "+" + right + ")";
      }
    }
    EXPECT_EQ(stack.entries(), partial_sums(first, run));
    partials.insert(partials.end(), stack.entries().begin(), stack.entries().end());
    buffers.insert(buffers.end(), sums.begin(), sums.end());
    first += run;
  }
  for (const Addition& add : finish_tree(partials)) {
    buffers[static_cast<std::size_t>(add.target)] = "(" + buffers[static_cast<std::size_t>(add.target)] +
                                                    "+" + buffers[static_cast<std::size_t>(add.source)] + ")";
  }
  return buffers[0];
}

TEST(ReductionTree, IsTheSameExpressionForEveryCut) {
  for (std::int64_t leaves = 1; leaves <= 40; ++leaves) {
    const std::string expected = expression(0, leaves);
    for (std::int64_t ranks = 1; ranks <= leaves; ++ranks) {
      if (leaves % ranks != 0) continue;
      EXPECT_EQ(
          expression_of_ranks(std::vector<std::int64_t>(static_cast<std::size_t>(ranks), leaves / ranks)),
          expected)
          << leaves << " leaves on " << ranks << " ranks";
    }
  }
}

TEST(ReductionTree, EvenForUnevenCuts) {
  std::mt19937 engine(4);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::int64_t> runs;
    std::int64_t leaves = 0;
    for (std::size_t r = 0; r < 1 + engine() % 6; ++r) {
      runs.push_back(1 + static_cast<std::int64_t>(engine() % 9));
      leaves += runs.back();
    }
    EXPECT_EQ(expression_of_ranks(runs), expression(0, leaves));
  }
}

TEST(ReductionTree, ARunOfAPowerOfTwoLeavesOnePartialSum) {
  EXPECT_EQ(partial_sums(8, 8), (std::vector<Subtree>{{8, 3}}));
  EXPECT_EQ(partial_sums(3, 3), (std::vector<Subtree>{{3, 0}, {4, 1}}));
}

TEST(ReductionTree, CountsPartialSums) {
  for (std::int64_t first = 0; first <= 40; ++first) {
    for (std::int64_t count = 0; count <= 40; ++count) {
      EXPECT_EQ(num_partial_sums(first, count), std::ssize(partial_sums(first, count)))
          << first << " " << count;
    }
  }
}

TEST(ReductionTree, SumsLossesInTheSameOrder) {
  // (a + b) + c and a + (b + c) differ here; three leaves are (a + b) + c.
  EXPECT_EQ(tree_sum({1e8f, -1e8f, 1.0f}), 1.0f);
  EXPECT_EQ(tree_sum({1.0f, 1e8f, -1e8f}), 0.0f);
  EXPECT_THROW(tree_sum({}), Error);
}

}  // namespace
}  // namespace trireme
