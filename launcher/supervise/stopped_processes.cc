#include "launcher/supervise/stopped_processes.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "launcher/supervise/job_process.h"
#include "parallel/watch/process_watch.h"

namespace trireme {

std::vector<int> stopped_processes(const std::string& tag) {
  std::vector<int> processes = tagged_processes(tag);
  std::erase_if(processes, [](int process) { return !is_stopped(process); });
  return processes;
}

std::string StoppedProcesses::look(bool told_to_end, Clock::time_point now) {
  if (!told_to_end) return continue_mpirun(now);
  told_to_end_ = std::min(told_to_end_, now);
  return end_stopped(now);
}

std::string StoppedProcesses::end_stopped(Clock::time_point now) {
  const std::vector<int> stopped = stopped_processes(tag_);
  if (stopped.empty()) return "";
  const bool kills = now - told_to_end_ >= kGrace;
  for (const int process : stopped) kill(process, kills ? SIGKILL : SIGCONT);
  return kills ? fmt::format("{} process(es) are still stopped {} s after the job was told to stop: killed",
                             stopped.size(), kGrace.count())
               : fmt::format(
                     "{} process(es) of the job were stopped by a signal: continued, so that the job ends",
                     stopped.size());
}

std::string StoppedProcesses::continue_mpirun(Clock::time_point now) {
  if (!is_stopped(mpirun_)) {
    mpirun_stopped_ = kNever;
    return "";
  }
  mpirun_stopped_ = std::min(mpirun_stopped_, now);
  if (now - mpirun_stopped_ < kTimeToFollow) return "";
  const auto num_stopped = stopped_processes(tag_).size(), num_all = tagged_processes(tag_).size();
  if (num_stopped == num_all && num_all > 1) return "";  // paused
  mpirun_stopped_ = kNever;
  kill(mpirun_, SIGCONT);
  return fmt::format("mpirun (process {}) was stopped by a signal, and its ranks were not: it is continued",
                     mpirun_);
}

}  // namespace trireme
