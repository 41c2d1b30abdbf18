#include "launcher/supervise/mpirun_options.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <string_view>

namespace trireme {
namespace {

constexpr const char* kAsRoot = "--allow-run-as-root";
constexpr const char* kOversubscribe = "--oversubscribe";

// Open MPI takes long options with one dash, too.
bool is_option(std::string_view word, std::string_view option) {
  return word == option || (option.starts_with("--") && word == option.substr(1));
}

template <std::size_t N>
bool gives_any(std::span<const std::string> given, const std::array<std::string_view, N>& options) {
  return std::ranges::any_of(given, [&](std::string_view word) {
    return std::ranges::any_of(options, [&](std::string_view option) { return is_option(word, option); });
  });
}

bool is_root_allowed(std::span<const std::string> given, const EnvironmentLookup& lookup) {
  return gives_any(given, std::array<std::string_view, 1>{kAsRoot}) ||
         (lookup("OMPI_ALLOW_RUN_AS_ROOT") == "1" && lookup("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == "1");
}

bool are_slots_chosen(std::span<const std::string> given, const EnvironmentLookup& lookup) {
  constexpr std::array<std::string_view, 6> kHosts = {
      "--host", "-H", "--hostfile", "--default-hostfile", "--machinefile", "--use-hwthread-cpus"};
  constexpr std::array kSchedulers = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE"};
  // Also "--nooversubscribe", "--map-by node:oversubscribe" and MCA parameters.
  const auto is_about_slots = [](const std::string& word) { return word.find("oversubscribe") != word.npos; };
  return gives_any(given, kHosts) || std::ranges::any_of(given, is_about_slots) ||
         lookup("OMPI_MCA_rmaps_base_oversubscribe") ||
         std::ranges::any_of(kSchedulers, [&](const char* name) { return lookup(name).has_value(); });
}

}  // namespace

std::vector<AddedOption> needed_mpirun_options(std::span<const std::string> given, const MpirunNeeds& needs,
                                               const EnvironmentLookup& lookup) {
  std::vector<AddedOption> added;
  if (needs.is_root && !is_root_allowed(given, lookup)) added.push_back({kAsRoot, "this user is root"});
  const bool is_crowded = !needs.has_hosts && needs.num_ranks > needs.num_cores;
  if (is_crowded && !are_slots_chosen(given, lookup))
    added.push_back(
        {kOversubscribe, fmt::format("{} ranks share {} core(s)", needs.num_ranks, needs.num_cores)});
  return added;
}

int count_physical_cores() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return 1;
  std::set<std::string> cores;  // each as the list of its processors
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable)) continue;
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string processors;
    if (!std::getline(file, processors)) processors = std::to_string(cpu);
    cores.insert(processors);
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

}  // namespace trireme
