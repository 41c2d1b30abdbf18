#include "launcher/host/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "launcher/host/job_fabric.h"
#include "parallel/comm/local.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The files of sysfs, as Linux 6.1 with two ConnectX-7 adapters has them.
class FabricTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    testing::write_file(root_ / file, text + "\n");
  }
  void write_interface(const std::string& name, const std::string& state, const std::string& speed) {
    const std::string folder = "sys/class/net/" + name + "/";
    write(folder + "operstate", state);
    write(folder + "speed", speed);
    write(folder + "mtu", "1500");
    write(folder + "type", name == "lo" ? "772" : "1");
  }
  void write_adapter(const std::string& name, const std::string& state, const std::string& rate) {
    const std::string folder = "sys/class/infiniband/" + name + "/ports/1/";
    write(folder + "state", state);
    write(folder + "rate", rate);
    write(folder + "link_layer", "InfiniBand");
  }

  testing::TemporaryFolder root_;
};

TEST_F(FabricTest, ReadsInterfacesAdaptersAndModules) {
  write_interface("lo", "unknown", "");
  write_interface("eth0", "up", "25000");
  write_interface("eth1", "down", "-1");
  write_adapter("mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)");
  write_adapter("mlx5_1", "1: DOWN", "10 Gb/sec (4X SDR)");
  write("sys/module/nvidia/version", "550.54");
  HostFabric fabric = read_fabric("a", root_ / "");
  EXPECT_THAT(describe(fabric),
              ElementsAre("eth0: up, 25 Gbit/s, MTU 1500", "eth1: down, rate unknown, MTU 1500",
                          "mlx5_0 port 1: ACTIVE, InfiniBand, 400 Gbit/s",
                          "mlx5_1 port 1: DOWN, InfiniBand, 10 Gbit/s",
                          HasSubstr("no module nvidia_peermem is loaded")));
  write("sys/module/nvidia_peermem/version", "550.54");
  fabric = read_fabric("a", root_ / "");
  EXPECT_EQ(describe(fabric).back(), "GPUDirect RDMA: nvidia_peermem");
  EXPECT_EQ(describe(fabric_of(to_json(fabric))), describe(fabric));  // as it travels to rank 0
}

TEST_F(FabricTest, TheLinkIsThatOfActiveAdaptersOrOfTheFastestInterface) {
  EXPECT_FALSE(link_of(read_fabric("a", root_ / "")).has_value());
  write_interface("eth0", "up", "10000");
  write_interface("eth1", "up", "25000");
  write_interface("eth2", "down", "100000");
  EXPECT_EQ(link_of(read_fabric("a", root_ / ""))->by, "eth1");
  EXPECT_DOUBLE_EQ(link_of(read_fabric("a", root_ / ""))->gb_per_s, 3.125);
  write_adapter("mlx5_0", "4: ACTIVE", "200 Gb/sec (4X HDR)");
  write_adapter("mlx5_1", "4: ACTIVE", "200 Gb/sec (4X HDR)");
  write_adapter("mlx5_2", "1: DOWN", "200 Gb/sec (4X HDR)");
  EXPECT_EQ(link_of(read_fabric("a", root_ / ""))->by, "mlx5_0, mlx5_1");
  EXPECT_DOUBLE_EQ(link_of(read_fabric("a", root_ / ""))->gb_per_s, 50);
}

TEST_F(FabricTest, AJobHasTheSlowestLinkAndTheClocksOfItsHosts) {
  write_interface("eth0", "up", "25000");
  JobFabric fabric;
  fabric.hosts.push_back({read_fabric("a", root_ / ""), {}});
  EXPECT_THAT(describe_link(fabric, 1), HasSubstr("all ranks are on one host"));
  fabric.hosts.push_back({read_fabric("b", root_ / ""), {.low_ms = 0.2, .high_ms = 0.3}});
  write_interface("eth0", "up", "10000");
  fabric.hosts.push_back({read_fabric("c", root_ / ""), {.low_ms = -2500, .high_ms = -2400}});
  EXPECT_EQ(describe_link(fabric, 0.5), "1.25 GB/s (eth0): the largest all-reduce reaches 40 % of it");
  const auto rows = describe(fabric);
  EXPECT_EQ(rows[0], (std::pair<std::string, std::string>("fabric", "of a, b:")));
  EXPECT_EQ(rows.back().first, "clocks");
  EXPECT_THAT(rows.back().second,
              HasSubstr("b +0.25 ms (+-0.05), c -2450.00 ms (+-50.00), from a: synchronise"));
  EXPECT_EQ(to_json(fabric)[2]["link_gb_per_s"], 1.25);
}

// The bounds hold whatever the ranks' timing is.
TEST(ClockDifferenceTest, BoundsContainTheDifference) {
  run_local_ranks(3, [](const std::shared_ptr<Communicator>& comm) {
    // One steady clock for all, in place of the system's, which may be set.
    const auto clock = [&] {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      return std::chrono::duration<double, std::milli>(now).count() + 1000.0 * comm->rank();
    };
    const std::vector<ClockDifference> differences = measure_clocks(*comm, clock);
    for (int rank = 0; rank < 3; ++rank) {
      const ClockDifference& one = differences[static_cast<std::size_t>(rank)];
      constexpr double kRounding = 1e-3;
      EXPECT_LE(one.low_ms, 1000.0 * rank + kRounding);
      EXPECT_GE(one.high_ms, 1000.0 * rank - kRounding);
    }
  });
}

TEST(JobFabricTest, RanksOfOneHostAreOneHost) {
  run_local_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    const JobFabric fabric = examine_fabric(*comm);
    ASSERT_EQ(fabric.hosts.size(), 1u);
    EXPECT_FALSE(link_between_hosts(fabric).has_value());
  });
}

}  // namespace
}  // namespace trireme
