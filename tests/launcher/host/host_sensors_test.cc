#include "launcher/host/host_sensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(HostSensors, ReadWhatTheSystemTells) {
  const testing::TemporaryFolder proc;
  std::filesystem::create_directory(proc / "self");
  testing::write_file(proc / "stat", "cpu  100 20 30 4000 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  testing::write_file(proc / "meminfo", "MemTotal:  2000 kB\nMemFree: 5 kB\nMemAvailable:  1500 kB\n");
  testing::write_file(proc / "self/statm", "500 20 3 4 5 6 7\n");
  const HostReading host = read_host(proc.path(), proc.path());
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(host.cpu_busy_s, (100 + 20 + 30 + 6 + 7 + 8) / ticks);
  EXPECT_EQ(host.cpu_idle_s, (4000 + 50) / ticks);
  EXPECT_EQ(host.memory_total_bytes, 2000 * 1024);
  EXPECT_EQ(host.memory_available_bytes, 1500 * 1024);
  EXPECT_EQ(host.process_resident_bytes, 20 * sysconf(_SC_PAGESIZE));
  EXPECT_GT(host.disk_size_bytes.value_or(0), host.disk_free_bytes.value_or(0));
}

TEST(HostSensors, WhatIsMissingIsLeftOut) {
  const testing::TemporaryFolder proc;
  const HostReading host = read_host(proc / "not/yet/there", proc.path());
  EXPECT_FALSE(host.cpu_busy_s);
  EXPECT_FALSE(host.memory_total_bytes);
  EXPECT_FALSE(host.process_resident_bytes);
  // The disk of the nearest existing folder.
  EXPECT_EQ(host.disk_size_bytes, read_host(proc.path(), proc.path()).disk_size_bytes);
}

TEST(HostSensors, ThisMachineTellsAll) {
  const HostReading host = read_host(".");
  EXPECT_GT(host.cpu_busy_s.value_or(0), 0);
  EXPECT_GT(host.memory_available_bytes.value_or(0), 0);
  EXPECT_LT(host.process_resident_bytes.value_or(0), host.memory_total_bytes.value_or(0));
}

}  // namespace
}  // namespace trireme
