#include "launcher/train/shared_cores.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

TEST(SharedCores, AreThoseThatRanksOfOneHostAreBoundToAlike) {
  const std::vector<RankCores> unbound(4, {.threads = 1, .allowed = 2, .affinity = 7});
  EXPECT_TRUE(any_share_cores({0, 0, 0, 0}, unbound));
  EXPECT_TRUE(any_share_cores({0, 1, 1, 1}, unbound)) << "of one host";
  EXPECT_FALSE(any_share_cores({0, 0, 1, 1}, unbound));
  EXPECT_FALSE(any_share_cores({0, 0}, std::vector(unbound.begin(), unbound.begin() + 2)));
  std::vector<RankCores> bound = unbound;
  for (std::size_t rank = 0; rank < bound.size(); ++rank) bound[rank].affinity = 7 + rank / 2;
  EXPECT_FALSE(any_share_cores({0, 0, 0, 0}, bound));
}

TEST(SharedCores, ThreadsCountAndOneRankSharesNone) {
  const std::vector<RankCores> two(2, {.threads = 2, .allowed = 3, .affinity = 7});
  EXPECT_TRUE(any_share_cores({0, 0}, two));
  EXPECT_FALSE(any_share_cores({0}, std::vector<RankCores>{{.threads = 4, .allowed = 2, .affinity = 7}}));
}

}  // namespace
}  // namespace trireme
