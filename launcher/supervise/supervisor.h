// Runs a job under mpirun and restarts it from its newest whole checkpoint until it is done or cannot
// continue.
//
// [Note: repair from outside] A lost rank ends the whole job within about a second, and the whole job starts
// again. No rank is repaired or replaced while others run. Any layout continues a checkpoint with the same
// bits, so only the steps since the checkpoint are lost. Rejected: shrinking communicators inside the job
// (ULFM). Open MPI 4.1 does not have it, and its state after a fault would have to be proved correct for
// every action of a step.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/host/env.h"
#include "launcher/host/exit_code.h"
#include "launcher/records/history.h"
#include "launcher/records/output_folder.h"
#include "launcher/supervise/decision.h"
#include "launcher/supervise/disk_wait.h"
#include "launcher/supervise/host_pool.h"
#include "launcher/supervise/job_process.h"
#include "launcher/supervise/lease.h"
#include "launcher/supervise/rank_choice.h"
#include "launcher/supervise/signal_inbox.h"

namespace trireme {

class AttemptEnd;
class RankWatch;

class Supervisor {
 public:
  struct Options {
    std::string job;                     // TOML file
    std::vector<std::string> overrides;  // key overrides for `trireme train`
    JobConfig config;                    // resolved from both
    std::filesystem::path out;
    RankRange ranks;
    int max_restarts = 20;
    double max_disk_minutes = 60;  // maximum wait for a full or failing disk
    std::string hosts;             // mpirun's host file, read again before each attempt; empty: none
    int num_spares = 0;            // hosts of the file that are held back
    std::string mpirun = "mpirun";
    std::vector<std::string> mpirun_options;
    LaunchEnvironment launch;
  };

  /// Takes over the folder: ends a job that a dead supervisor left behind. Throws Error(kInvalidInput) if
  /// another supervisor holds the folder, if no number of ranks can run the job, or if a host of a new job is
  /// unreachable or computes other bits.
  explicit Supervisor(Options options);

  /// Returns kDone; kBadInput if the job was refused; kStopped after a signal; kFailed if it gave up, after
  /// printing the history to standard error.
  ExitCode run();

 private:
  /// The ranks and hosts of an attempt.
  struct Place {
    int num_ranks = 1;
    HostChoice hosts;  // empty without a host file
  };

  /// Removes the files of a refused start.
  void leave_nothing() noexcept;
  void end_orphan();
  void find_hosts();
  Place choose_place() const;
  std::string describe_place() const;
  std::string describe_limit() const;
  /// `options`: extra mpirun options for this attempt.
  std::vector<std::string> command(const std::filesystem::path& host_file,
                                   const std::vector<std::string>& options) const;
  /// Starts the next attempt once the disk accepts its files. Null: stopped while waiting for that.
  std::unique_ptr<JobProcess> start_attempt(const Attempt& attempt, const std::filesystem::path& log);
  /// Returns false if it was stopped before the attempt began.
  bool run_attempt();
  void look_at_ranks(RankWatch& ranks, AttemptEnd& end, JobProcess& job);
  void watch(JobProcess& job, const Attempt& attempt, const std::filesystem::path& log, AttemptEnd& end);
  void react_to_signals(const JobProcess& job);
  bool may_grow(const Attempt& attempt);
  /// Minutes of train.max_minutes that remain; 0 without a limit.
  double minutes_left() const;
  bool time_is_up() const;
  bool wait(std::chrono::milliseconds delay);
  ExitCode finish(const Decision& decision);

  Options options_;
  const bool is_new_;  // the output folder did not exist
  OutputFolder out_;
  std::unique_ptr<Lease> lease_;
  History history_;
  SignalInbox inbox_;
  DiskWait disk_;
  std::unique_ptr<HostPool> hosts_;  // null without a host file
  Place place_;                      // of the next attempt
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int num_signals_ = 0;
  int seen_slots_ = 0;    // this number of slots did not allow more ranks
  bool growing_ = false;  // the attempt was stopped in order to use more ranks
};

}  // namespace trireme
