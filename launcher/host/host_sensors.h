// Reads a machine's CPU time, memory and disk space.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

struct HostReading {
  // Null where the system does not report the value.
  std::optional<double> cpu_busy_s, cpu_idle_s;  // of all cores, since boot
  std::optional<std::int64_t> memory_total_bytes, memory_available_bytes;
  std::optional<std::int64_t> process_resident_bytes;
  std::optional<std::int64_t> disk_size_bytes, disk_free_bytes;  // free: for this user
};

/// `folder`: selects the disk; if it does not exist, its nearest existing parent is used. `proc`: replaces
/// "/proc" in tests.
HostReading read_host(const std::filesystem::path& folder, const std::filesystem::path& proc = "/proc");

}  // namespace trireme
