#include "launcher/host/env.h"

#include <fmt/core.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "launcher/host/thread_stacks.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Iterations of libgomp's wait loop, 10 ns to 100 ns each, depending on the processor.
constexpr const char* kSpinCount = "2000";

/// The value of the first of `names` that is set to an integer.
std::optional<int> read_integer(const EnvironmentLookup& lookup, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto text = lookup(name);
    if (!text) continue;
    int value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error == std::errc() && end == text->data() + text->size()) return value;
  }
  return std::nullopt;
}

/// Slurm's number of tasks of this step on this node, from its list for all nodes: "4(x2),3". Null: unknown.
std::optional<int> slurm_tasks_on_this_node(const EnvironmentLookup& lookup) {
  std::istringstream list(lookup("SLURM_STEP_TASKS_PER_NODE").value_or(""));
  int node = read_integer(lookup, {"SLURM_NODEID"}).value_or(0);
  for (std::string entry; std::getline(list, entry, ',');) {
    std::istringstream words(entry);
    int tasks = 0, nodes = 1;
    if (!(words >> tasks)) return std::nullopt;
    if (words.peek() == '(' && !(words.ignore(2) >> nodes)) return std::nullopt;
    node -= nodes;
    if (node < 0) return tasks;
  }
  return std::nullopt;
}

std::string find_launcher(const EnvironmentLookup& lookup) {
  if (lookup("OMPI_COMM_WORLD_SIZE")) return "mpirun (Open MPI)";
  if (lookup("PMIX_RANK")) return "PMIx";
  if (lookup("PMI_RANK")) return "PMI";
  return "";
}

// A file in the folder of this machine's PMIx server, which belongs to one job and is removed with it.
std::string find_board_file(const EnvironmentLookup& lookup) {
  const auto folder = lookup("PMIX_SERVER_TMPDIR"), name_space = lookup("PMIX_NAMESPACE");
  if (!folder || !name_space || name_space->find('/') != std::string::npos) return "";
  return fmt::format("{}/trireme-{}.board", *folder, *name_space);
}

std::string link_target(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(path, error);
  return error ? "" : target.string();
}

/// Parent of a process, from /proc; 0 if unknown.
int parent_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');  // the name may contain blanks and parentheses
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string state;
  int parent = 0;
  fields >> state >> parent;
  return parent;
}

/// The output of the nearest ancestor whose standard output differs from ours: mpirun, past any wrapper
/// scripts.
std::string launcher_output() {
  const std::string ours = link_target("/proc/self/fd/1");
  for (int pid = getppid(); pid > 1; pid = parent_of(pid)) {
    const std::string theirs = link_target(fmt::format("/proc/{}/fd/1", pid));
    if (theirs.empty()) return "";
    if (theirs != ours) return theirs;
  }
  return "";
}

}  // namespace

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void set_environment_variable(const char* name, const char* value) {
  setenv(name, value, 1);
}

void prepare_environment_for_stages(const EnvironmentLookup& lookup, const EnvironmentSetter& set) {
  constexpr const char* kQueues = "CUDA_DEVICE_MAX_CONNECTIONS";
  constexpr int kFewestQueues = 16;  // at most 32; a rank has about 10 streams, plus two per tied stage
  const auto queues = read_integer(lookup, {kQueues});
  TRIREME_CHECK(
      !queues || *queues >= kFewestQueues,
      "{} = {}: the streams of a pipeline's rank would hold each other up; unset it, or set it to {} or more",
      kQueues, queues.value_or(0), kFewestQueues);
  if (!queues) set(kQueues, "32");
  if (!lookup("CUDA_MODULE_LOADING")) set("CUDA_MODULE_LOADING", "EAGER");
}

void prepare_environment_for_shared_gpus(const LaunchEnvironment& launch, const EnvironmentLookup& lookup,
                                         const EnvironmentSetter& set) {
  // The only value that a user cannot choose: mpirun would give all ranks the same.
  set("NCCL_HOSTID", fmt::format("trireme-rank-{}", launch.rank).c_str());
  const bool one_machine = launch.num_local_ranks == launch.num_ranks;
  const std::pair<const char*, const char*> defaults[] = {
      {"NCCL_SOCKET_IFNAME", one_machine ? "lo" : nullptr},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_ALGO", "Ring"},
      {"NCCL_PROTO", "Simple"}};
  for (const auto& [name, value] : defaults) {
    if (value != nullptr && !lookup(name)) set(name, value);
  }
}

bool prepare_environment_for_threads(const EnvironmentLookup& lookup, const EnvironmentSetter& set) {
  if (lookup("GOMP_SPINCOUNT") || lookup("OMP_WAIT_POLICY")) return false;
  set("GOMP_SPINCOUNT", kSpinCount);
  return true;
}

void restart_with_thread_settings(char* const* argv) {
  // Without an interpreter, the process was started through the loader, so /proc/self/exe is the loader.
  if (getauxval(AT_BASE) == 0) return;
  // Executing the link itself would change the process's name.
  const std::string program = link_target("/proc/self/exe");
  if (program.empty()) return;
  bool changed = prepare_environment_for_threads();
  for (const SmallStack& small : find_small_stacks(stack_limit())) changed = raise_stack(small) || changed;
  if (changed) ::execv(program.c_str(), argv);
}

LaunchEnvironment read_launch_environment(const EnvironmentLookup& lookup) {
  LaunchEnvironment launch;
  launch.launcher = find_launcher(lookup);
  if (!launch.under_mpi()) {
    const int num_tasks = read_integer(lookup, {"SLURM_STEP_NUM_TASKS"}).value_or(1);
    TRIREME_CHECK(num_tasks <= 1,
                  "srun has started {} tasks without MPI, so each of them would train alone: use `srun "
                  "--mpi=pmix` (or pmi2), or mpirun inside of the allocation",
                  num_tasks);
    return launch;
  }
  launch.board_file = find_board_file(lookup);
  launch.rank = read_integer(lookup, {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}).value_or(0);
  launch.num_ranks =
      read_integer(lookup, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}).value_or(1);
  launch.local_rank =
      read_integer(lookup, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}).value_or(0);
  const auto local_ranks = read_integer(lookup, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  launch.num_local_ranks = local_ranks ? *local_ranks : slurm_tasks_on_this_node(lookup).value_or(1);
  launch.attempt = lookup(kAttemptVariable).value_or("");
  return launch;
}

bool output_is_terminal(const LaunchEnvironment& launch) {
  if (isatty(STDOUT_FILENO) == 0) return false;
  if (!launch.under_mpi()) return true;
  const std::string output = launcher_output();
  return output.starts_with("/dev/pts/") || output.starts_with("/dev/tty");
}

}  // namespace trireme
