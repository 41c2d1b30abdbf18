// The machine's resources for this process: cores, memory, instruction sets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// CPU time limit in cores of this process's control group and its parents, from cgroup v2 (cpu.max) or v1
/// (cpu.cfs_quota_us). Null: no limit. `root`: replaces "/" in tests.
std::optional<double> cgroup_cpu_limit(const std::filesystem::path& root = "/");

/// The same for memory, in bytes.
std::optional<std::int64_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

struct CoreCounts {
  int machine = 1;   // online
  int affinity = 1;  // cores this process may run on, as bound by mpirun, taskset or a container
  std::optional<double> quota;

  /// Cores to use for a single process; at least 1.
  int usable() const;
  /// Maximum number of threads that affinity and quota let run at once; a fraction of a core counts as one.
  int allowed() const;
};
CoreCounts count_cores();

/// Number of threads per rank so that the `num_local_ranks` ranks of a machine do not exceed its cores: the
/// cores of the rank's affinity, or its share of the machine if that is less. At least 1.
int threads_per_rank(const CoreCounts& cores, int num_local_ranks);

/// Throws Error(kInvalidInput) if `threads`, which the user set as `name`, exceed the cores of this process.
/// `escape`: how to allow it anyway; may be empty.
void check_threads(std::int64_t threads, const CoreCounts& cores, std::string_view name,
                   std::string_view escape = "");

/// A warning if a launcher bound ranks so tightly that cores stay idle; else empty.
std::string describe_idle_cores(const CoreCounts& cores, int num_local_ranks);

/// A warning if the ranks of a machine have several threads each, and more in total than the cores that they
/// share; else empty. Ranks that a launcher has bound do not share cores.
std::string describe_shared_cores(const CoreCounts& cores, int num_local_ranks, int threads);

/// check_threads() for parallel.threads of a job, unless parallel.oversubscribe is set.
struct ParallelSection;
void check_threads(const ParallelSection& section);

/// Bytes of memory: the machine's, or the control group's limit if that is less.
std::int64_t total_memory_bytes();

std::string host_name();

/// "Intel Xeon ...", or empty if unknown.
std::string cpu_model();

/// The relevant instruction sets that are present: {"avx2", "avx512f", ...}.
std::vector<std::string> instruction_sets();

}  // namespace trireme
