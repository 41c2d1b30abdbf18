// The ranks of this job: started by mpirun, or this process alone, without MPI_Init.
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

/// The work of one rank.
struct RankWork {
  /// Returns parallel.timeout_s, 0: none. Called before the ranks join each other, so that the limit applies
  /// from then on. Empty: the key's default, until set_limit(). Must not throw.
  std::function<double()> read_limit;
  /// Collective.
  std::function<ExitCode(RankSession& session)> run;
  RecordWriter* records = nullptr;  // receives a record of a failure and of a watchdog's verdict; may be null
};

/// A rank, as seen by its work.
class RankSession {
 public:
  RankSession(std::shared_ptr<Communicator> comm, Watchdog* watchdog)
      : comm_(std::move(comm)), watchdog_(watchdog) {}

  const std::shared_ptr<Communicator>& comm() const { return comm_; }
  /// Sets the job's limit, if it was unknown before.
  void set_limit(double timeout_s);
  /// Null for a single process.
  Watchdog* watchdog() const { return watchdog_; }
  /// Shows `text` as this rank's action to the other ranks while the result lives: "the opening of the data".
  Watchdog::Scope inside(std::string text) const { return {comm_->status().get(), std::move(text)}; }

 private:
  std::shared_ptr<Communicator> comm_;
  Watchdog* watchdog_;  // null for a single process
};

/// Joins the other ranks and runs the work. Rank 0 reports an AgreedError, and all ranks return its exit
/// code. Any other exception ends the job on all ranks at once, with this rank's message and exit code 1; a
/// single process rethrows it to the caller.
///
/// Until this returns, a rank that dies, or delays the others beyond the limit, is named by another rank of
/// its machine, which ends the job with exit code 1. This includes the start and end of MPI.
ExitCode run_as_rank(const LaunchEnvironment& launch, const RankWork& work);

}  // namespace trireme
