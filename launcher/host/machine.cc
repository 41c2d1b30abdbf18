#include "launcher/host/machine.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include "launcher/config/config.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The positive integer in a file; null for "max", -1 and missing files.
std::optional<std::int64_t> read_limit(const fs::path& path) {
  std::istringstream line(first_line(path));
  std::int64_t value = 0;
  if (!(line >> value) || value <= 0) return std::nullopt;
  return value;
}

template <class T>
void lower(std::optional<T>& limit, std::optional<T> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

/// Folders of the control groups that apply to `controller`: this process's own first, then its parents. In a
/// container the path in /proc may be the host's; missing folders are ignored.
std::vector<fs::path> cgroup_folders(const fs::path& root, std::string_view controller) {
  std::vector<fs::path> folders;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:path
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(fmt::format(",{},", controller)) == std::string::npos)
      continue;
    const fs::path base = root / "sys/fs/cgroup" / controllers;
    fs::path group = line.substr(second + 1);
    for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
      folders.push_back(base / group);
    }
    folders.push_back(base);
  }
  return folders;
}

std::optional<double> folder_cpu_limit(const fs::path& folder) {
  std::istringstream unified(first_line(folder / "cpu.max"));  // "max 100000" or "150000 100000"
  double quota = 0, period = 0;
  if (unified >> quota >> period && quota > 0 && period > 0) return quota / period;
  const auto old_quota = read_limit(folder / "cpu.cfs_quota_us");
  const auto old_period = read_limit(folder / "cpu.cfs_period_us");
  if (old_quota && old_period) return static_cast<double>(*old_quota) / static_cast<double>(*old_period);
  return std::nullopt;
}

}  // namespace

std::optional<double> cgroup_cpu_limit(const fs::path& root) {
  std::optional<double> limit;
  for (const fs::path& folder : cgroup_folders(root, "cpu")) lower(limit, folder_cpu_limit(folder));
  return limit;
}

std::optional<std::int64_t> cgroup_memory_limit(const fs::path& root) {
  std::optional<std::int64_t> limit;
  for (const fs::path& folder : cgroup_folders(root, "memory")) {
    lower(limit, read_limit(folder / "memory.max"));
    lower(limit, read_limit(folder / "memory.limit_in_bytes"));
  }
  return limit;
}

int CoreCounts::usable() const {
  // A fraction of a core is left to the system, because a team of threads waits for its slowest member.
  const int within_quota = quota ? static_cast<int>(*quota) : affinity;
  return std::max(1, std::min(affinity, within_quota));
}

int CoreCounts::allowed() const {
  const int within_quota = quota ? static_cast<int>(std::ceil(*quota)) : affinity;
  return std::max(1, std::min(affinity, within_quota));
}

void check_threads(std::int64_t threads, const CoreCounts& cores, std::string_view name,
                   std::string_view escape) {
  const int allowed = cores.allowed();
  if (threads <= allowed) return;
  std::string why;
  if (cores.affinity < cores.machine) {
    why += fmt::format(", being bound to {} (mpirun: --bind-to none)", cores.affinity);
  }
  if (cores.quota) why += fmt::format(", with a quota of {:.3g} from its control group", *cores.quota);
  throw Error(ErrorCode::kInvalidInput,
              "{} = {}: this process may use {} of the machine's {} core(s){}, and threads beyond that wait "
              "for each other; set it to {} or less, or to 0 for its part of them{}{}",
              name, threads, allowed, cores.machine, why, allowed, escape.empty() ? "" : ", or ", escape);
}

CoreCounts count_cores() {
  CoreCounts cores;
  cores.machine = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const bool known = sched_getaffinity(0, sizeof(mask), &mask) == 0;
  cores.affinity = known ? std::max(1, CPU_COUNT(&mask)) : cores.machine;
  cores.quota = cgroup_cpu_limit();
  return cores;
}

int threads_per_rank(const CoreCounts& cores, int num_local_ranks) {
  int whole = cores.machine;
  if (cores.quota) whole = std::min(whole, static_cast<int>(*cores.quota));
  return std::max(1, std::min(cores.affinity, whole / std::max(1, num_local_ranks)));
}

void check_threads(const ParallelSection& section) {
  if (section.oversubscribe) return;
  check_threads(section.threads, count_cores(), "parallel.threads", "set parallel.oversubscribe = true");
}

std::string describe_shared_cores(const CoreCounts& cores, int num_local_ranks, int threads) {
  const bool is_bound = cores.affinity < cores.machine;
  if (threads <= 1 || is_bound || threads * num_local_ranks <= cores.allowed()) return "";
  return fmt::format(
      "parallel.threads = {}: {} ranks share {} core(s) of this machine, and threads beyond that wait for "
      "each other; set it to {}",
      threads, num_local_ranks, cores.allowed(), threads_per_rank(cores, num_local_ranks));
}

std::string describe_idle_cores(const CoreCounts& cores, int num_local_ranks) {
  CoreCounts unbound = cores;
  unbound.affinity = cores.machine;
  const int here = threads_per_rank(cores, num_local_ranks),
            could = threads_per_rank(unbound, num_local_ranks);
  if (here >= could) return "";
  return fmt::format(
      "each of the {} ranks of this machine is bound to {} of its {} cores and could use {}: start with "
      "`mpirun --bind-to none`",
      num_local_ranks, cores.affinity, cores.machine, could);
}

std::int64_t total_memory_bytes() {
  const std::int64_t machine = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return std::min(machine, cgroup_memory_limit().value_or(machine));
}

std::string host_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto start = line.find_first_not_of(" \t", line.find(':') + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto add = [&names](bool present, const char* name) {
    if (present) names.emplace_back(name);
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vnni"), "avx512vnni");
  add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
#elif defined(__aarch64__)
  names.emplace_back("neon");
#endif
  return names;
}

}  // namespace trireme
