#include "launcher/host/machine.h"

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

TEST(Machine, MoreThreadsThanCoresAreRefused) {
  const auto message = [](std::int64_t threads, const CoreCounts& cores) {
    return testing::message_of([&] { check_threads(threads, cores, "parallel.threads", "set a key"); });
  };
  EXPECT_EQ(message(0, {.machine = 1, .affinity = 1}), "");
  EXPECT_EQ(message(4, {.machine = 8, .affinity = 4}), "");
  // The remainder is for occasional work.
  EXPECT_EQ(message(2, {.machine = 8, .affinity = 8, .quota = 1.5}), "");
  EXPECT_THAT(
      message(999, {.machine = 2, .affinity = 2}),
      ::testing::AllOf(::testing::HasSubstr("parallel.threads = 999: this process may use 2 of"),
                       ::testing::HasSubstr("set it to 2 or less"), ::testing::HasSubstr("or set a key"),
                       ::testing::Not(::testing::HasSubstr("bound"))));
  EXPECT_THAT(
      message(5, {.machine = 8, .affinity = 4}),
      ::testing::HasSubstr("may use 4 of the machine's 8 core(s), being bound to 4 (mpirun: --bind-to"));
  EXPECT_THAT(message(3, {.machine = 8, .affinity = 8, .quota = 1.5}),
              ::testing::HasSubstr("quota of 1.5 from its control group"));
}

TEST(Machine, RanksShareTheCores) {
  const CoreCounts free{.machine = 8, .affinity = 8};
  EXPECT_EQ(threads_per_rank(free, 1), 8);
  EXPECT_EQ(threads_per_rank(free, 2), 4);
  EXPECT_EQ(threads_per_rank(free, 3), 2);
  EXPECT_EQ(threads_per_rank(free, 100), 1);
  EXPECT_EQ(threads_per_rank({.machine = 8, .affinity = 8, .quota = 4.0}, 2), 2);
  // mpirun has bound each rank to one core.
  EXPECT_EQ(threads_per_rank({.machine = 2, .affinity = 1}, 2), 1);
}

TEST(Machine, IdleCoresAreNoticed) {
  EXPECT_EQ(describe_idle_cores({.machine = 2, .affinity = 1}, 2), "");
  EXPECT_EQ(describe_idle_cores({.machine = 8, .affinity = 8}, 2), "");
  EXPECT_THAT(describe_idle_cores({.machine = 8, .affinity = 1}, 2), ::testing::HasSubstr("could use 4"));
}

TEST(Machine, ThreadsOfSeveralRanksThatShareCoresAreNoticed) {
  const CoreCounts four{.machine = 4, .affinity = 4}, bound{.machine = 4, .affinity = 2};
  EXPECT_EQ(describe_shared_cores(four, 2, 2), "");
  EXPECT_EQ(describe_shared_cores(four, 8, 1), "");  // single-threaded ranks are mpirun's responsibility
  EXPECT_EQ(describe_shared_cores(bound, 2, 2), "");
  EXPECT_THAT(describe_shared_cores(four, 2, 4), ::testing::HasSubstr("2 ranks share 4 core(s)"));
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
