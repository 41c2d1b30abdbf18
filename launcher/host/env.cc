#include "launcher/host/env.h"

#include <fmt/core.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Rounds of libgomp's wait loop, some 10 ns to 100 ns each, by processor.
constexpr const char* kSpinCount = "2000";

/// The first of `names` that is set to an integer.
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

std::string find_launcher(const EnvironmentLookup& lookup) {
  if (lookup("OMPI_COMM_WORLD_SIZE")) return "mpirun (Open MPI)";
  if (lookup("PMIX_RANK")) return "PMIx";
  if (lookup("PMI_RANK")) return "PMI";
  return "";
}

// In the folder of the PMIx server of this machine, which is one job's and goes with it.
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

/// Parent of a process, from /proc; 0 when unknown.
int parent_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string state;
  int parent = 0;
  fields >> state >> parent;
  return parent;
}

/// The output of the nearest ancestor whose standard output is not ours: mpirun, past any wrapper script.
std::string launcher_output() {
  const std::string ours = link_target("/proc/self/fd/1");
  for (int pid = getppid(); pid > 1; pid = parent_of(pid)) {
    const std::string theirs = link_target(fmt::format("/proc/{}/fd/1", pid));
    if (theirs.empty()) return "";
    if (theirs != ours) return theirs;
  }
  return "";
}

constexpr const char* kStackVariables[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};

/// "512", "64K", " 2 M ": as libgomp reads it, in KiB without a unit. Nothing where libgomp passes over it.
std::optional<std::int64_t> read_stack_size(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n", kUnits = "bkmg";
  const auto skip_blanks = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  };
  skip_blanks();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  skip_blanks();
  std::size_t unit = kUnits.find('k');
  if (!text.empty()) {
    unit = kUnits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(text.front()))));
    if (unit == std::string_view::npos) return std::nullopt;
    text.remove_prefix(1);
    skip_blanks();
  }
  const std::int64_t factor = std::int64_t{1} << (10 * unit);
  if (!text.empty() || number > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
  return number * factor;
}

/// Returns true where a new start of the program will have enough. The first rank logs the new value.
bool raise(const SmallStack& small) {
  std::string raised = fmt::format("{}K", kLeastStackBytes / 1024);
  if (small.cause == SmallStack::Cause::kVariable) {
    set_environment_variable(small.name.c_str(), raised.c_str());
  } else {
    rlimit limit{};
    constexpr rlim_t kUsual = 8 << 20;
    if (getrlimit(RLIMIT_STACK, &limit) != 0) return false;
    limit.rlim_cur = std::min(kUsual, limit.rlim_max);
    if (limit.rlim_cur < kLeastStackBytes || setrlimit(RLIMIT_STACK, &limit) != 0) return false;
    raised = fmt::format("{}", limit.rlim_cur / 1024);
  }
  if (read_integer(environment_variable, {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}).value_or(0) == 0)
    fmt::print(stderr, "trireme: warning: {} {} {} is too small for the stacks of threads: {} is taken\n",
               small.name, small.cause == SmallStack::Cause::kVariable ? "=" : "of", small.value, raised);
  return true;
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
  constexpr int kFewestQueues =
      16;  // of at most 32; a rank has about 10 streams, and two for each tied stage
  const auto queues = read_integer(lookup, {kQueues});
  TRIREME_CHECK(
      !queues || *queues >= kFewestQueues,
      "{} = {}: the streams of a pipeline's rank would hold each other up; unset it, or set it to {} or more",
      kQueues, queues.value_or(0), kFewestQueues);
  if (!queues) set(kQueues, "32");
  if (!lookup("CUDA_MODULE_LOADING")) set("CUDA_MODULE_LOADING", "EAGER");
}

bool prepare_environment_for_threads(const EnvironmentLookup& lookup, const EnvironmentSetter& set) {
  if (lookup("GOMP_SPINCOUNT") || lookup("OMP_WAIT_POLICY")) return false;
  set("GOMP_SPINCOUNT", kSpinCount);
  return true;
}

StackLimit stack_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return {};
  const auto bytes = [](rlim_t value) {
    return value == RLIM_INFINITY ? std::nullopt : std::optional(static_cast<std::int64_t>(value));
  };
  return {.soft = bytes(limit.rlim_cur), .hard = bytes(limit.rlim_max)};
}

std::vector<SmallStack> find_small_stacks(const StackLimit& limit, const EnvironmentLookup& lookup) {
  std::vector<SmallStack> small;
  for (const char* name : kStackVariables) {
    const auto text = lookup(name);
    const auto bytes = text ? read_stack_size(*text) : std::nullopt;
    if (!bytes) continue;
    if (*bytes < kLeastStackBytes)
      small.push_back({.cause = SmallStack::Cause::kVariable, .name = name, .value = *text});
    break;  // libgomp takes the first one that it can read
  }
  if (limit.soft && *limit.soft < kLeastStackBytes)
    small.push_back({.cause = SmallStack::Cause::kLimit,
                     .name = "ulimit -s",
                     .value = fmt::format("{}", *limit.soft / 1024)});
  return small;
}

void refuse_small_stacks(const std::vector<SmallStack>& small) {
  if (small.empty()) return;
  const SmallStack& first = small.front();
  const bool is_variable = first.cause == SmallStack::Cause::kVariable;
  throw Error(ErrorCode::kInvalidInput,
              "{} {} {}: the stacks of threads would be too small; {}set it to {} KiB or more", first.name,
              is_variable ? "=" : "is", first.value, is_variable ? "unset it, or " : "",
              kLeastStackBytes / 1024);
}

void restart_with_thread_settings(char* const* argv) {
  // Without an interpreter of its own the process was started through the loader, and is the loader.
  if (getauxval(AT_BASE) == 0) return;
  const std::string program = link_target("/proc/self/exe");  // not that link: it would be the process's name
  if (program.empty()) return;
  bool changed = prepare_environment_for_threads();
  for (const SmallStack& small : find_small_stacks(stack_limit())) changed = raise(small) || changed;
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
  launch.num_local_ranks =
      read_integer(lookup, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"})
          .value_or(1);
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
