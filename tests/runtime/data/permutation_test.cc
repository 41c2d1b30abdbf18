#include "runtime/data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

std::vector<std::int64_t> values(const Permutation& permutation) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < permutation.size(); ++i) result.push_back(permutation(i));
  return result;
}

TEST(Permutation, EveryValueOnce) {
  std::vector<std::int64_t> sizes = {1000, 1023, 1024, 1025, 4097, 20000};
  for (std::int64_t size = 1; size <= 70; ++size) sizes.push_back(size);
  for (const std::int64_t size : sizes) {
    for (const std::uint64_t seed : {0ull, 1ull, 0xFFFFFFFFFFFFFFFFull}) {
      auto sorted = values(Permutation(size, seed, 3));
      std::sort(sorted.begin(), sorted.end());
      for (std::int64_t i = 0; i < size; ++i) ASSERT_EQ(sorted[i], i) << "size " << size << " seed " << seed;
    }
  }
}

TEST(Permutation, LargeSizesStayInRangeAndDistinct) {
  const std::int64_t size = (std::int64_t{1} << 40) + 12345;
  const Permutation permutation(size, 7, 0);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const std::int64_t value = permutation(size - 1 - i * 1'000'003);
    EXPECT_GE(value, 0);
    EXPECT_LT(value, size);
    EXPECT_TRUE(seen.insert(value).second);
  }
}

TEST(Permutation, DependsOnSeedAndEpoch) {
  const auto base = values(Permutation(100, 1, 0));
  EXPECT_EQ(base, values(Permutation(100, 1, 0)));
  EXPECT_NE(base, values(Permutation(100, 1, 1)));
  EXPECT_NE(base, values(Permutation(100, 2, 0)));
  EXPECT_NE(base, values(Permutation(100, 1ull << 32 | 1, 0)));
}

// 6000 epochs over 10 positions: each (position, value) cell expects 600 hits with a deviation of about 23. A
// fair shuffle would exceed six deviations once in ten million runs, and the seeds here are fixed.
TEST(Permutation, EveryValueIsEquallyLikelyAtEveryPosition) {
  constexpr int kSize = 10, kEpochs = 6000;
  std::vector<int> counts(kSize * kSize);
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(kSize, 1337, epoch);
    for (int position = 0; position < kSize; ++position) ++counts[position * kSize + permutation(position)];
  }
  const double expected = kEpochs / double{kSize};
  const double deviation = std::sqrt(expected * (1.0 - 1.0 / kSize));
  for (const int count : counts) EXPECT_NEAR(count, expected, 6 * deviation);
}

// Neighbouring values are independent: steps of +-1 are as rare as in a fair shuffle (2 expected).
TEST(Permutation, NeighboursAreSeparated) {
  const auto order = values(Permutation(5000, 11, 0));
  int adjacent = 0;
  for (std::size_t i = 1; i < order.size(); ++i) adjacent += std::abs(order[i] - order[i - 1]) == 1;
  EXPECT_LE(adjacent, 12);
}

TEST(Permutation, RefusesAnEmptyRange) {
  EXPECT_THROW(Permutation(0, 1, 0), Error);
  EXPECT_THROW(Permutation(-3, 1, 0), Error);
}

TEST(EpochOffset, CoversItsRange) {
  std::set<std::int64_t> seen;
  for (std::uint32_t epoch = 0; epoch < 400; ++epoch) {
    const std::int64_t offset = epoch_offset(16, 5, epoch, 0);
    EXPECT_GE(offset, 0);
    EXPECT_LT(offset, 16);
    seen.insert(offset);
  }
  EXPECT_EQ(seen.size(), 16u);
}

}  // namespace
}  // namespace trireme
