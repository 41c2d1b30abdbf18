// Processes of an attempt on the supervisor's host that a signal stopped (SIGSTOP, SIGTSTP).
//
// [Note: stopped processes] A job whose processes are all stopped is paused: the supervisor does nothing.
// Once the job has to end, the supervisor continues its processes, because a stopped rank saves no checkpoint
// and a stopped mpirun forwards no signal. If only mpirun is stopped, it is continued, because its ranks
// would wait for it when they end.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trireme {

/// The stopped processes among tagged_processes(tag), including those that a debugger stopped.
std::vector<int> stopped_processes(const std::string& tag);

class StoppedProcesses {
 public:
  using Clock = std::chrono::steady_clock;

  /// Processes still stopped this long after the first request to end are killed.
  static constexpr std::chrono::seconds kGrace{60};
  /// A terminal stops mpirun first and its ranks a moment later.
  static constexpr std::chrono::seconds kTimeToFollow{10};

  StoppedProcesses(std::string tag, int mpirun) : tag_(std::move(tag)), mpirun_(mpirun) {}

  /// Continues or kills processes as in [Note: stopped processes]. `told_to_end`: the job has to end. Returns
  /// a line for the log, or an empty string if nothing was done. Call about once a second.
  std::string look(bool told_to_end, Clock::time_point now = Clock::now());

 private:
  std::string end_stopped(Clock::time_point now);
  std::string continue_mpirun(Clock::time_point now);

  static constexpr Clock::time_point kNever = Clock::time_point::max();
  std::string tag_;
  int mpirun_;
  Clock::time_point told_to_end_ = kNever, mpirun_stopped_ = kNever;  // times of first observation
};

}  // namespace trireme
