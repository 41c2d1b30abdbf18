#include "launcher/cluster/measure_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "launcher/cluster/cluster_file.h"
#include "launcher/cluster/reference_jobs.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "launcher/report/plan_time.h"
#include "parallel/foresee/op_calls.h"
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

// Every precision of products, attention with heads of 64 and 128, and every family of a GPU.
TEST(MeasureCluster, ReferenceJobsAreJobs) {
  for (const DeviceType type : {DeviceType::kCpu, DeviceType::kCuda}) {
    std::set<std::string> kernels;
    std::set<double> heads;
    for (const std::string& text : reference_jobs(type)) {
      const JobConfig config = resolve(parse_config(text, "reference job"));
      EXPECT_EQ(config.train.global_batch, 2 * config.train.micro_batch);
      for (const OpCall& call : record_step(planned_job(config, build_blocks(config.model), 1)).calls) {
        kernels.insert(kernel_of(call.shape));
        if (call.op == "attention_fwd") heads.insert(call.shape.inner);
      }
    }
    for (const char* kernel : {"matmul fp32 NT", "matmul tf32 NT", "matmul fp16 NT", "matmul bf16 NT",
                               "matmul e4m3 NT", "attention_bwd bf16", "softmax_cross_entropy bf16",
                               "conv2d_bwd_weight bf16", "batch_norm_bwd bf16", "adamw fp32", "sgd fp32"}) {
      EXPECT_TRUE(kernels.contains(kernel)) << name(type) << ": " << kernel;
    }
    EXPECT_TRUE(heads.contains(64));
    EXPECT_EQ(heads.contains(128), type == DeviceType::kCuda);
  }
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
