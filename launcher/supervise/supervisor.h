// Starts a job under mpirun, and starts it again from its newest whole checkpoint until it is done or cannot
// be.
//
// [Note: repair from outside] A rank that is lost ends the whole job, within about a second, and all of it
// starts again: no rank is repaired or replaced while others run. Any layout goes on from a checkpoint with
// the same bits, so nothing but the steps since then is lost. Rejected: shrinking communicators inside of the
// job (ULFM), which Open MPI 4.1 does not have, and whose state after a fault would have to be proved right
// in every action of a step.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/host/env.h"
#include "launcher/host/exit_code.h"
#include "launcher/supervise/decision.h"
#include "launcher/supervise/disk_wait.h"
#include "launcher/supervise/history.h"
#include "launcher/supervise/host_pool.h"
#include "launcher/supervise/job_process.h"
#include "launcher/supervise/lease.h"
#include "launcher/supervise/rank_choice.h"
#include "launcher/supervise/signal_inbox.h"
#include "launcher/train/output_folder.h"

namespace trireme {

class AttemptEnd;
class RankWatch;

class Supervisor {
 public:
  struct Options {
    std::string job;                     // TOML file
    std::vector<std::string> overrides;  // of keys, for `trireme train`
    JobConfig config;                    // of both, resolved
    std::filesystem::path out;
    RankRange ranks;
    int max_restarts = 20;
    double max_disk_minutes = 60;  // that a full or failing disk is waited for
    std::string hosts;             // mpirun's host file, read again before each attempt; empty: none
    int num_spares = 0;            // hosts of it that are held back
    std::string mpirun = "mpirun";
    std::vector<std::string> mpirun_options;
    LaunchEnvironment launch;
  };

  /// Takes the folder over: ends a job that a supervisor left behind. Throws Error(kInvalidInput) where
  /// another supervisor has the folder, where no number of ranks can run the job, and where a host of a new
  /// job cannot be reached or has other bits.
  explicit Supervisor(Options options);

  /// kDone; kBadInput where the job was refused; kStopped after a signal; kFailed when it gave up, with the
  /// history on standard error.
  ExitCode run();

 private:
  /// What an attempt is started on.
  struct Place {
    int num_ranks = 1;
    HostChoice hosts;  // none without a host file
  };

  /// Removes what a start that is refused has made.
  void leave_nothing() noexcept;
  void end_orphan();
  void find_hosts();
  Place choose_place() const;
  std::string describe_place() const;
  std::string describe_limit() const;
  /// `options`: of mpirun, for this attempt.
  std::vector<std::string> command(const std::filesystem::path& host_file,
                                   const std::vector<std::string>& options) const;
  /// Starts the next attempt, once the disk takes what belongs to it. Null: stopped while waiting for that.
  std::unique_ptr<JobProcess> start_attempt(const Attempt& attempt, const std::filesystem::path& log);
  /// Returns false where it was stopped before it began.
  bool run_attempt();
  void look_at_ranks(RankWatch& ranks, AttemptEnd& end, JobProcess& job);
  void watch(JobProcess& job, const Attempt& attempt, const std::filesystem::path& log, AttemptEnd& end);
  void react_to_signals(const JobProcess& job);
  bool may_grow(const Attempt& attempt);
  /// Of train.max_minutes, which is 0 where there is no limit.
  double minutes_left() const;
  bool time_is_up() const;
  bool wait(std::chrono::milliseconds delay);
  ExitCode finish(const Decision& decision);

  Options options_;
  const bool is_new_;  // the folder
  OutputFolder out_;
  std::unique_ptr<Lease> lease_;
  History history_;
  SignalInbox inbox_;
  DiskWait disk_;
  std::unique_ptr<HostPool> hosts_;  // null without a host file
  Place place_;                      // of the next attempt
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int num_signals_ = 0;
  int seen_slots_ = 0;    // that did not make more ranks possible
  bool growing_ = false;  // the attempt was told to stop for that
};

}  // namespace trireme
