// The job under mpirun, as a child that outlives its supervisor: output in a file, a process group of its
// own.
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
    std::vector<std::string> command;  // mpirun, found in PATH, and its arguments
    std::filesystem::path log;         // standard output and standard error; made anew
    std::string tag;  // in the environment of the job's processes on this host: they are found by it
  };

  /// Throws Error(kInvalidInput) where the command cannot be started, Error(kRuntime) where the disk does not
  /// take the log.
  explicit JobProcess(const Options& options);
  /// Ends what is left of the job.
  ~JobProcess();
  JobProcess(const JobProcess&) = delete;
  JobProcess& operator=(const JobProcess&) = delete;

  /// mpirun, as a mark (runtime/checkpoint/writer_mark.h).
  const std::string& mark() const { return mark_; }
  int process() const { return process_; }
  /// To mpirun, which passes SIGUSR1 on to its ranks.
  void send(int signal) const;
  /// Exit code of mpirun, 128 and the signal's number where one ended it; nothing while it runs.
  std::optional<int> poll();
  /// Signal that ended mpirun; 0: none, or it runs.
  int ending_signal() const { return ending_signal_; }

 private:
  int process_ = -1;
  std::string mark_, tag_;
  std::optional<int> exit_code_;
  int ending_signal_ = 0;
};

/// Processes of this host that have `tag` in their environment, but this one.
std::vector<int> tagged_processes(const std::string& tag);

/// Waits for all processes with the tag for up to `patience`, then ends those that are left. Returns how many
/// those were. Processes without the tag are never touched, whatever their number.
int end_tagged(const std::string& tag, std::chrono::milliseconds patience);

}  // namespace trireme
