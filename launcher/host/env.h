// The environment of this process, and the settings for CUDA and OpenMP in it. The only place that reads or
// sets environment variables.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace trireme {

/// Looks up a variable; tests pass their own function.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment_variable(const char* name);

/// Holds the tag of an attempt (launcher/records/history.h).
inline constexpr const char* kAttemptVariable = "TRIREME_ATTEMPT";

/// The launch of this process, as known before MPI is initialised.
struct LaunchEnvironment {
  /// file through which the job's ranks on this machine find each other before MPI runs; empty: unknown
  std::string board_file;
  std::string launcher;  // "mpirun", "PMI", ...; empty: a single process, without MPI
  int rank = 0;
  int num_ranks = 1;
  int local_rank = 0;  // on this machine
  int num_local_ranks = 1;
  std::string attempt;  // tag of `trireme run` from kAttemptVariable; empty: not supervised

  bool under_mpi() const { return !launcher.empty(); }
};

/// Recognises Open MPI's mpirun, PMIx and PMI launchers (MPICH, Intel MPI, srun). Throws Error(kInvalidInput)
/// if srun started several tasks without an MPI plugin, because each would train alone.
LaunchEnvironment read_launch_environment(const EnvironmentLookup& lookup = environment_variable);

/// Sets a variable of this process; tests pass their own function.
using EnvironmentSetter = std::function<void(const char* name, const char* value)>;
void set_environment_variable(const char* name, const char* value);

/// Sets what CUDA reads at its first call, for pipeline stages on GPUs: CUDA_DEVICE_MAX_CONNECTIONS and
/// CUDA_MODULE_LOADING, unless they are set. The reason is in [Note: channels over NCCL] in
/// parallel/comm/nccl.h. Throws Error(kInvalidInput) if the first is set below the number of streams of a
/// rank.
void prepare_environment_for_stages(const EnvironmentLookup& lookup = environment_variable,
                                    const EnvironmentSetter& set = set_environment_variable);

/// Sets what NCCL reads at its first call, for ranks that share a GPU. NCCL rejects two ranks of one host on
/// one GPU, so each rank claims its own host and communicates over sockets, on the loopback interface if the
/// job has one machine. NCCL_ALGO and NCCL_PROTO, unless they are set: the algorithm that links neighbours
/// only, and the protocol that does not spin on flags in memory, where ranks that take turns are slowest.
void prepare_environment_for_shared_gpus(const LaunchEnvironment& launch,
                                         const EnvironmentLookup& lookup = environment_variable,
                                         const EnvironmentSetter& set = set_environment_variable);

/// [Note: threads that wait] Between two parallel regions OpenMP's threads spin, with libgomp's default for
/// some milliseconds. On dedicated cores this costs nothing. If another process needs the core, such as a
/// second rank or a build, the spinning threads delay the thread that they all wait for, and a step takes
/// many times as long. With a short spin a thread stays ready across the gaps within a step, and sleeps in
/// longer ones.
///
/// Sets GOMP_SPINCOUNT for this and returns true, unless the user set GOMP_SPINCOUNT or OMP_WAIT_POLICY.
/// Measurements: "Threads that wait" in tests/bench/results.
bool prepare_environment_for_threads(const EnvironmentLookup& lookup = environment_variable,
                                     const EnvironmentSetter& set = set_environment_variable);

/// Re-executes the program in this process with the same arguments, if prepare_environment_for_threads() set
/// a variable or a small stack limit was raised (thread_stacks.h). This is necessary because libgomp reads
/// the environment, and glibc the stack limit, before main(). Returns if there is nothing to do, or the
/// system refuses. Call before anything else.
void restart_with_thread_settings(char* const* argv);

/// True if standard output is a terminal. mpirun gives its ranks a pseudo-terminal regardless of its own
/// output, so under MPI the launcher's output is checked as well.
bool output_is_terminal(const LaunchEnvironment& launch);

}  // namespace trireme
