#include "launcher/cluster/measure_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cluster/cluster_file.h"
#include "launcher/keys/job_file.h"
#include "launcher/report/plan_time.h"
#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A cluster file as two single-threaded ranks on a machine of two cores measure it.
Cluster two_ranks() {
  Cluster cluster{.name = "here", .ranks_per_node = 2};
  cluster.devices.push_back({.name = "cpu-1-threads",
                             .family = "cpu",
                             .inside = "2-ranks",
                             .peak_tflops = {{"fp32", 0.1}},
                             .memory_gb = 8,
                             .memory_gb_s = 10,
                             .type = DeviceType::kCpu,
                             .threads = 1,
                             .measured = {{"gelu fp32", {{.bytes = 100, .us = 2}}}}});
  cluster.links.push_back({.name = "2-ranks", .latency_us = 5, .gb_s = 4});
  cluster.host.cores = 2;
  return cluster;
}

MeasuredRank four_ranks() {
  return {.device = {DeviceType::kCpu},
          .threads = 1,
          .num_ranks = 4,
          .cores = 2,
          .memory_bytes = 4'000'000'000,
          .link = LinkRates{.latency_us = 50, .gb_s = 1},
          .waiting_share = 0.25};
}

TEST(MeasureCluster, RanksThatShareCoresHaveTheCallsOfThoseThatDoNot) {
  const Cluster shared = with_shared_cores(two_ranks(), four_ranks());
  const Cluster cluster = parse_cluster(to_toml(shared), "here.toml");
  ASSERT_EQ(cluster.devices.size(), 2u);
  const ClusterDevice& four = cluster.device("cpu-1-threads-4-ranks");
  EXPECT_EQ(four.ranks, 4);
  EXPECT_EQ(four.memory_gb, 4);
  EXPECT_EQ(four.measured.at("gelu fp32")[0].us, 2);
  EXPECT_EQ(cluster.link(four.inside).latency_us, 50);
  EXPECT_EQ(cluster.link(cluster.device("cpu-1-threads").inside).latency_us, 5);
  EXPECT_EQ(cluster.ranks_per_node, 4);
  EXPECT_EQ(cluster.host.cores, 2);
  EXPECT_EQ(cluster.host.waiting_share, 0.25);
  EXPECT_EQ(merged(cluster, two_ranks()).host.waiting_share, 0.25);
  // Measuring again replaces it.
  EXPECT_EQ(to_toml(with_shared_cores(cluster, four_ranks())), to_toml(cluster));
}

TEST(MeasureCluster, FewerRanksAreMeasuredFirst) {
  Cluster other = two_ranks();
  other.devices[0].threads = 2;
  EXPECT_THAT([&] { with_shared_cores(other, four_ranks()); },
              ThrowsMessage<Error>(HasSubstr("measure 2 ranks first, each on cores of its own")));
}

TEST(MeasureCluster, NewCallsAreThoseOfSharedCoresToo) {
  const Cluster old = with_shared_cores(two_ranks(), four_ranks());
  Cluster now = two_ranks();
  now.devices[0].measured["gelu fp32"][0].us = 3;
  const Cluster both = merged(old, now);
  EXPECT_EQ(both.devices.size(), 2u);
  EXPECT_EQ(both.links.size(), 2u);
  EXPECT_EQ(both.device("cpu-1-threads-4-ranks").measured.at("gelu fp32")[0].us, 3);
}

TEST(MeasureCluster, APlanTakesTheDeviceOfItsRanks) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path() / "here.toml";
  std::ofstream(file) << to_toml(with_shared_cores(two_ranks(), four_ranks()));
  EXPECT_EQ(read_cluster_choice(file, "", {.threads = 1, .num_ranks = 4}).device, "cpu-1-threads-4-ranks");
  EXPECT_EQ(read_cluster_choice(file, "", {.threads = 1, .num_ranks = 2}).device, "cpu-1-threads");
  EXPECT_THAT([&] { read_cluster_choice(file, "", {.threads = 2, .num_ranks = 1}); },
              ThrowsMessage<Error>(HasSubstr("no device was measured with 2 thread(s)")));
}

}  // namespace
}  // namespace trireme
