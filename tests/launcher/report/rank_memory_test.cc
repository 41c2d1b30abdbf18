#include "launcher/report/rank_memory.h"

#include <gtest/gtest.h>

#include "parallel/comm/local.h"

namespace trireme {
namespace {

MemoryStats stats(std::int64_t total, std::int64_t gradients) {
  MemoryStats stats{.peak_total = total};
  stats.peak[MemoryCategory::kGradients] = gradients;
  return stats;
}

TEST(RankMemory, IsThatOfTheRankThatTakesMost) {
  run_local_ranks(4, [](const std::shared_ptr<Communicator>& comm) {
    const std::int64_t totals[] = {5, 9, 9, 2};
    const RankMemory largest = largest_of_ranks(*comm, stats(totals[comm->rank()], 100 + comm->rank()));
    EXPECT_EQ(largest.rank, 1);
    EXPECT_EQ(largest.peak_bytes, 9);
    EXPECT_EQ(largest.peak[MemoryCategory::kGradients], 101);
  });
  const RankMemory alone = largest_of_ranks(*LocalWorld(1).communicator(0), stats(7, 3));
  EXPECT_EQ(alone.rank, 0);
  EXPECT_EQ(alone.peak_bytes, 7);
  EXPECT_EQ(alone.peak[MemoryCategory::kGradients], 3);
}

}  // namespace
}  // namespace trireme
