// The environment of this process, and what it tells CUDA. The only place that reads or sets
// environment variables.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace trireme {

/// Looks up a variable; tests pass their own.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment_variable(const char* name);

/// Holds the tag of an attempt (launcher/supervise/history.h).
inline constexpr const char* kAttemptVariable = "TRIREME_ATTEMPT";

/// The start of this process, known before MPI is initialised.
struct LaunchEnvironment {
  /// For the job's ranks on this machine to find each other before MPI runs; empty: not told.
  std::string board_file;
  std::string launcher;  // "mpirun", "PMI", ...; empty: alone, MPI is not needed
  int rank = 0;
  int num_ranks = 1;
  int local_rank = 0;  // on this machine
  int num_local_ranks = 1;
  std::string attempt;  // the tag of `trireme run`, in the variable below; empty: started by something else

  bool under_mpi() const { return !launcher.empty(); }
};

/// Recognises Open MPI's mpirun, PMIx and PMI launchers (MPICH, Intel MPI, srun). Throws Error(kInvalidInput)
/// when srun has started several tasks without an MPI plugin: each would train alone.
LaunchEnvironment read_launch_environment(const EnvironmentLookup& lookup = environment_variable);

/// Sets a variable of this process; tests pass their own.
using EnvironmentSetter = std::function<void(const char* name, const char* value)>;
void set_environment_variable(const char* name, const char* value);

/// Settings that stages on GPUs need CUDA to read at its first call: CUDA_DEVICE_MAX_CONNECTIONS and
/// CUDA_MODULE_LOADING, where they are not set. Why: [Note: channels over NCCL] in parallel/comm/nccl.h.
/// Throws Error(kInvalidInput) where the first is set to less than the streams of a rank.
void prepare_environment_for_stages(const EnvironmentLookup& lookup = environment_variable,
                                    const EnvironmentSetter& set = set_environment_variable);

/// [Note: threads that wait] Between two parallel regions OpenMP's threads spin, by libgomp's default for
/// some milliseconds. On cores of their own that costs nothing; where another process wants the core, a rank
/// beside it or a build, the spinning takes the time that the thread they all wait for would need, and a step
/// takes many times as long. A short spin bridges the gaps within a step, and then the thread sleeps.
///
/// Sets GOMP_SPINCOUNT for that, and returns true, where the user says nothing of it (GOMP_SPINCOUNT,
/// OMP_WAIT_POLICY). Measurements: "Threads that wait" in tests/bench/results.
bool prepare_environment_for_threads(const EnvironmentLookup& lookup = environment_variable,
                                     const EnvironmentSetter& set = set_environment_variable);

/// libgomp reads the environment, and glibc the limit of stacks, before main(): where
/// prepare_environment_for_threads() has set something, or a small stack is raised (thread_stacks.h), this
/// starts the program once more in this process, with the same arguments. Returns where there is nothing to
/// do, or the system does not let it. To be called before anything else.
void restart_with_thread_settings(char* const* argv);

/// True when standard output ends at a terminal. mpirun gives its ranks a pseudo-terminal whatever its own
/// output is, so under MPI the output of the process that started us is looked at as well.
bool output_is_terminal(const LaunchEnvironment& launch);

}  // namespace trireme
