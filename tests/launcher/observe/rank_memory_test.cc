#include "launcher/observe/rank_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "parallel/comm/local.h"

namespace trireme {
namespace {

RankMemory memory(int rank, std::int64_t total, std::int64_t gradients) {
  RankMemory memory{.rank = rank, .peak_bytes = total};
  memory.peak[MemoryCategory::kGradients] = gradients;
  return memory;
}

TEST(RankMemory, IsThatOfTheRankThatTakesMost) {
  run_local_ranks(4, [](const std::shared_ptr<Communicator>& comm) {
    const std::int64_t totals[] = {5, 9, 9, 2};
    const auto ranks = comm->all_gather_value(memory(comm->rank(), totals[comm->rank()], 100 + comm->rank()));
    EXPECT_EQ(largest(ranks).rank, 1);
    EXPECT_EQ(largest(ranks).peak_bytes, 9);
    EXPECT_EQ(largest(ranks).peak[MemoryCategory::kGradients], 101);
  });
  const std::vector<RankMemory> alone = {memory(0, 7, 3)};
  EXPECT_EQ(largest(alone).rank, 0);
  EXPECT_EQ(largest(alone).peak_bytes, 7);
  EXPECT_EQ(largest(alone).peak[MemoryCategory::kGradients], 3);
}

}  // namespace
}  // namespace trireme
