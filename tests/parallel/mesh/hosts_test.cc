#include "parallel/mesh/hosts.h"

#include <gtest/gtest.h>

#include "parallel/comm/local.h"
#include "parallel/layout/data_axis.h"
#include "runtime/base/error.h"
#include "runtime/context.h"

namespace trireme {
namespace {

// Two stages x four data ranks x two tensor ranks.
const Mesh kMesh{{Axis::kPipeline, 2}, {Axis::kData, 4}, {Axis::kTensor, 2}};

TEST(Hosts, HaveNeighbours) {
  EXPECT_EQ(hosts_of(5, 2), (HostMap{0, 0, 1, 1, 2}));
  EXPECT_THROW(hosts_of(5, 0), Error);
  EXPECT_EQ(hosts_like({0, 0, 0, 1}, 4), (HostMap{0, 0, 0, 1}));
  EXPECT_EQ(hosts_like({0, 0, 1, 1}, 6), (HostMap{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(hosts_like({}, 3), (HostMap{0, 0, 0}));
  EXPECT_EQ(num_hosts({0, 1, 1, 2}), 3);
}

TEST(Hosts, HaveRunsOfEachGroupOrNot) {
  EXPECT_EQ(ranks_per_host(kMesh, hosts_of(16, 4), Axis::kData), 2);
  EXPECT_EQ(ranks_per_host(kMesh, hosts_of(16, 8), Axis::kData), 4);
  EXPECT_EQ(ranks_per_host(kMesh, hosts_of(16, 2), Axis::kData), 1);
  EXPECT_EQ(ranks_per_host(kMesh, hosts_of(16, 3), Axis::kData), 0);
  EXPECT_EQ(ranks_per_host({{Axis::kData, 4}}, {0, 1, 0, 1}, Axis::kData), 0);
  EXPECT_EQ(ranks_per_host({{Axis::kData, 4}}, {0, 0, 1, 0}, Axis::kData), 0);
  EXPECT_FALSE(spans_hosts(kMesh, hosts_of(16, 8), Axis::kData));
  EXPECT_TRUE(spans_hosts(kMesh, hosts_of(16, 4), Axis::kData));
  EXPECT_TRUE(spans_hosts(kMesh, hosts_of(16, 1), Axis::kTensor));
  EXPECT_FALSE(spans_hosts(kMesh, hosts_of(16, 4), Axis::kTensor));
}

// The pieces of a buffer are owned once each, and come together in their order.
TEST(DataAxis, GathersOnTwoLevelsWhatItOwns) {
  run_local_ranks(kMesh.num_ranks(), [](const std::shared_ptr<Communicator>& world) {
    const MeshGroups groups = split_mesh(world, kMesh, 2);
    EXPECT_EQ(groups.all().size(), 6u);
    const DataAxis axis(groups);
    EXPECT_TRUE(axis.is_hierarchical());
    EXPECT_EQ(axis.num_hosts(), 2);
    EXPECT_EQ(axis.ranks_per_host(), 2);
    const int data = groups.coord()[Axis::kData];
    EXPECT_EQ(axis.sharding().rank, data % 2 * 2 + data / 2);
    Context ctx = Context::create({DeviceType::kCpu}, 1);
    const Tensor whole = ctx.zeros({8});
    auto* values = static_cast<float*>(whole.data());
    const int first = axis.sharding().rank * 2;
    for (int i = first; i < first + 2; ++i) values[i] = static_cast<float>(i);
    axis.gather_and_wait(whole.slice(first, {2}), whole);
    EXPECT_EQ(ctx.to_host(whole), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  });
}

}  // namespace
}  // namespace trireme
