// The ranks of this job: those that mpirun started, or this process alone (MPI is not even initialised then).
#pragma once

#include <functional>
#include <memory>

#include "launcher/host/env.h"
#include "launcher/host/exit_code.h"
#include "launcher/records/record_writer.h"
#include "parallel/comm/communicator.h"
#include "parallel/watch/watchdog.h"

namespace trireme {

class RankSession;

/// The work of a rank.
struct RankWork {
  /// Before the ranks join each other, so that a limit holds from then on: reads parallel.timeout_s, 0: none.
  /// Empty: the key's default, until set_limit(). Does not throw.
  std::function<double()> read_limit;
  /// Collective.
  std::function<ExitCode(RankSession& session)> run;
  RecordWriter* records = nullptr;  // gets a record of a failure, and of a watchdog's verdict; null: nobody
};

/// One rank, for its work.
class RankSession {
 public:
  RankSession(std::shared_ptr<Communicator> comm, Watchdog* watchdog)
      : comm_(std::move(comm)), watchdog_(watchdog) {}

  const std::shared_ptr<Communicator>& comm() const { return comm_; }
  /// The job's limit, where it was not known before.
  void set_limit(double timeout_s);
  /// Null: alone.
  Watchdog* watchdog() const { return watchdog_; }
  /// While it lives, the other ranks see this rank in `text`: "the opening of the data".
  Watchdog::Scope inside(std::string text) const { return {comm_->status().get(), std::move(text)}; }

 private:
  std::shared_ptr<Communicator> comm_;
  Watchdog* watchdog_;  // null: alone
};

/// Joins the other ranks and runs the work on this one. An AgreedError is reported by rank 0 and gives its
/// exit code on all ranks. Any other exception ends the job on all ranks at once, with this rank's message
/// and exit code 1; alone it is passed on to the caller.
///
/// From here until it returns, a rank that dies, or that holds the others up for longer than the limit, is
/// named by another one of its machine, which ends the job with exit code 1: while MPI starts and ends, too.
ExitCode run_as_rank(const LaunchEnvironment& launch, const RankWork& work);

}  // namespace trireme
