// What a machine and a disk have left: CPU time, memory, space.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

struct HostReading {
  // Nothing where the system does not tell.
  std::optional<double> cpu_busy_s, cpu_idle_s;  // of all cores, since the machine started
  std::optional<std::int64_t> memory_total_bytes, memory_available_bytes;
  std::optional<std::int64_t> process_resident_bytes;
  std::optional<std::int64_t> disk_size_bytes, disk_free_bytes;  // free: for this user
};

/// `folder`: one on the disk that is asked for; where it does not exist, the nearest above it that does.
/// `proc` stands for "/proc" in tests.
HostReading read_host(const std::filesystem::path& folder, const std::filesystem::path& proc = "/proc");

}  // namespace trireme
