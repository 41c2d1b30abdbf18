// The job under mpirun, as a child that may outlive its supervisor: its output goes to a file, and it has its
// own process group.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

class JobProcess {
 public:
  struct Options {
    std::vector<std::string> command;  // mpirun, searched in PATH, and its arguments
    std::filesystem::path log;         // standard output and standard error; truncated
    std::string tag;  // in the environment of the job's processes on this host, which identifies them
  };

  /// Throws Error(kInvalidInput) if the command cannot be started, Error(kRuntime) if the disk does not
  /// accept the log.
  explicit JobProcess(const Options& options);
  /// Ends all remaining processes of the job.
  ~JobProcess();
  JobProcess(const JobProcess&) = delete;
  JobProcess& operator=(const JobProcess&) = delete;

  /// mpirun's mark (runtime/checkpoint/writer_mark.h).
  const std::string& mark() const { return mark_; }
  int process() const { return process_; }
  /// Sends a signal to mpirun, which forwards SIGUSR1 to its ranks.
  void send(int signal) const;
  /// mpirun's exit code, or 128 + signal number; null while it runs.
  std::optional<int> poll();
  /// The signal that ended mpirun; 0: none, or still running.
  int ending_signal() const { return ending_signal_; }

 private:
  int process_ = -1;
  std::string mark_, tag_;
  std::optional<int> exit_code_;
  int ending_signal_ = 0;
};

/// Processes of this host with `tag` in their environment, without this process.
std::vector<int> tagged_processes(const std::string& tag);

/// Waits up to `patience` for all processes with the tag to end, then kills the rest. Returns how many were
/// killed. Processes without the tag are never touched, even if a process id was reused.
int end_tagged(const std::string& tag, std::chrono::milliseconds patience);

}  // namespace trireme
