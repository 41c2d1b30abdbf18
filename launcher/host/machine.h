// The resources of this machine for the process: cores, memory, instruction sets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The CPU time that control groups allow, in cores, from cgroup v2 (cpu.max) or v1 (cpu.cfs_quota_us) of
/// this process and all groups above it. Empty: no limit. `root` stands for "/" in tests.
std::optional<double> cgroup_cpu_limit(const std::filesystem::path& root = "/");

/// The same for memory, in bytes.
std::optional<std::int64_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

struct CoreCounts {
  int machine = 1;   // online
  int affinity = 1;  // this process may run on, as bound by mpirun, taskset or a container
  std::optional<double> quota;

  /// Cores that a process alone would use: at least 1.
  int usable() const;
  /// The most that its affinity and quota let run at once, a part of a core counted as one.
  int allowed() const;
};
CoreCounts count_cores();

/// Threads of one of `num_local_ranks` ranks, so that together they do not exceed the machine's cores:
/// its own affinity, or its part of the machine where that is less. At least 1.
int threads_per_rank(const CoreCounts& cores, int num_local_ranks);

/// Throws Error(kInvalidInput) when `threads`, which the user set as `name`, are more than the cores that
/// this process may use. `escape` says how to have them all the same, or is empty.
void check_threads(std::int64_t threads, const CoreCounts& cores, std::string_view name,
                   std::string_view escape = "");

/// A sentence to warn with when a launcher has bound ranks so tightly that cores stay idle; or empty.
std::string describe_idle_cores(const CoreCounts& cores, int num_local_ranks);

/// A sentence to warn with when the ranks of a machine have several threads each, and more of them together
/// than the cores that they share; or empty. Ranks that a launcher has bound do not share theirs.
std::string describe_shared_cores(const CoreCounts& cores, int num_local_ranks, int threads);

/// check_threads() for parallel.threads of a job, unless parallel.oversubscribe says so.
struct ParallelSection;
void check_threads(const ParallelSection& section);

/// Bytes of memory, of the machine or of the control group where that is less.
std::int64_t total_memory_bytes();

std::string host_name();

/// "Intel Xeon ...", or empty where unknown.
std::string cpu_model();

/// Instruction sets that matter here, present ones only: {"avx2", "avx512f", ...}.
std::vector<std::string> instruction_sets();

}  // namespace trireme
