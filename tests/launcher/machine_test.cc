#include "launcher/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(Machine, CgroupV2TakesTheTightestAncestor) {
  const testing::TemporaryFolder root;
  testing::write_file(root / "proc/self/cgroup", "0::/jobs/mine\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), std::nullopt);
  testing::write_file(root / "sys/fs/cgroup/cpu.max", "max 100000\n");
  testing::write_file(root / "sys/fs/cgroup/jobs/mine/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 4.0);
  testing::write_file(root / "sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 1.5);

  testing::write_file(root / "sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
  testing::write_file(root / "sys/fs/cgroup/jobs/memory.max", "1073741824\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), 1073741824);
}

TEST(Machine, CgroupV1) {
  const testing::TemporaryFolder root;
  testing::write_file(root / "proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n3:cpuset:/\n");
  testing::write_file(root / "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  testing::write_file(root / "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), std::nullopt);
  testing::write_file(root / "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 2.5);
  testing::write_file(root / "sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), 4096);
}

TEST(Machine, UsableCores) {
  EXPECT_EQ((CoreCounts{.machine = 8, .affinity = 4}).usable(), 4);
  EXPECT_EQ((CoreCounts{.machine = 8, .affinity = 8, .quota = 2.5}).usable(), 2);
  EXPECT_EQ((CoreCounts{.machine = 8, .affinity = 8, .quota = 0.5}).usable(), 1);
}

TEST(Machine, RanksShareTheCores) {
  const CoreCounts free{.machine = 8, .affinity = 8};
  EXPECT_EQ(threads_per_rank(free, 1), 8);
  EXPECT_EQ(threads_per_rank(free, 2), 4);
  EXPECT_EQ(threads_per_rank(free, 3), 2);
  EXPECT_EQ(threads_per_rank(free, 100), 1);
  EXPECT_EQ(threads_per_rank({.machine = 8, .affinity = 8, .quota = 4.0}, 2), 2);
  // mpirun has bound each rank to a core of its own.
  EXPECT_EQ(threads_per_rank({.machine = 2, .affinity = 1}, 2), 1);
}

TEST(Machine, IdleCoresAreNoticed) {
  EXPECT_EQ(describe_idle_cores({.machine = 2, .affinity = 1}, 2), "");
  EXPECT_EQ(describe_idle_cores({.machine = 8, .affinity = 8}, 2), "");
  EXPECT_THAT(describe_idle_cores({.machine = 8, .affinity = 1}, 2), ::testing::HasSubstr("could use 4"));
}

TEST(Machine, ThisOne) {
  const CoreCounts cores = count_cores();
  EXPECT_GE(cores.usable(), 1);
  EXPECT_LE(cores.usable(), cores.affinity);
  EXPECT_LE(cores.affinity, cores.machine);
  EXPECT_GT(total_memory_bytes(), std::int64_t{1} << 26);
}

}  // namespace
}  // namespace trireme
