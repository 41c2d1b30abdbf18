#include "parallel/cluster/exchange_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/support/small_cluster.h"

namespace trireme {
namespace {

class ExchangeTime : public ::testing::Test {
 protected:
  Cluster cluster_ = testing::small_cluster();
  ClusterNetwork network_{cluster_, cluster_.devices[0]};
};

TEST_F(ExchangeTime, OneRankSendsNothing) {
  EXPECT_EQ(network_.all_reduce_s(1e9, {.size = 1, .stride = 1}), 0);
}

TEST_F(ExchangeTime, RingInsideANode) {
  // 7/8 of a gigabyte at 100 GB/s, and log2(8) hops of 10 us.
  EXPECT_NEAR(network_.gather_s(1e9, {.size = 8, .stride = 1}), 7.0 / 8 / 100 + 30e-6, 1e-12);
  EXPECT_NEAR(network_.all_reduce_s(1e9, {.size = 8, .stride = 1}), 2 * (7.0 / 8 / 100 + 30e-6), 1e-12);
}

TEST_F(ExchangeTime, GroupsThatCrossNodesShareTheWire) {
  // One group of 16 neighbours has the node's whole link; with stride 8, each of 8 groups has an eighth of
  // it.
  EXPECT_NEAR(network_.gather_s(1e9, {.size = 16, .stride = 1}), 15.0 / 16 / 40 + 80e-6, 1e-12);
  EXPECT_NEAR(network_.gather_s(1e9, {.size = 2, .stride = 8}), 0.5 / 40 * 8 + 20e-6, 1e-12);
  EXPECT_NEAR(network_.gather_s(1e9, {.size = 16, .stride = 16}), 15.0 / 16 / 40 * 8 + 80e-6, 1e-12);
}

TEST_F(ExchangeTime, MessagesBetweenNodesShareTheWire) {
  EXPECT_NEAR(network_.message_s(1e9, 4), 1.0 / 100 + 10e-6, 1e-12);
  EXPECT_NEAR(network_.message_s(1e9, 8), 8.0 / 40 + 20e-6, 1e-12);
}

TEST_F(ExchangeTime, ASingleNodeRefusesMoreRanksThanItHas) {
  cluster_.devices[0].between.clear();
  try {
    network_.gather_s(1e9, {.size = 16, .stride = 1});
    FAIL() << "an exchange without a link";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("devices.card has no link between nodes"));
  }
}

}  // namespace
}  // namespace trireme
