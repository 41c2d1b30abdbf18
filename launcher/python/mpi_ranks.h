// This process as a rank of a job that mpi4py runs: once per process, for all its sessions.
//
// A failure cannot end the process, because the program may handle it. So each rank's watchdog gives up the
// work of its own process ([Note: threads of a session] in rank_team.h), and the job is ended when the
// interpreter exits.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "launcher/host/env.h"
#include "parallel/comm/mpi.h"
#include "parallel/watch/watchdog.h"

namespace trireme {

class MpiRanks {
 public:
  /// Collective. `fortran_comm`: see ForeignMpi. Throws as MpiSession; Error(kInvalidInput) without mpirun.
  explicit MpiRanks(int fortran_comm);
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;
  /// Call before MPI ends, and after all sessions. Not after a failure: see end_job().
  ~MpiRanks();

  const LaunchEnvironment& launch() const { return launch_; }
  Watchdog* watchdog() const { return watchdog_.get(); }
  /// Collective. A communicator of all ranks for one session, whose job has this parallel.timeout_s.
  std::shared_ptr<Communicator> join(double timeout_s);

  /// `listener` receives the watchdog's verdict, from its thread; a former verdict at once. Returns a number
  /// for unlisten().
  int listen(std::function<void(const Error& verdict)> listener);
  void unlisten(int listener);
  /// The error that the job has to end with.
  void fail(const Error& error);
  bool has_failed() const;
  /// Prints the first failure and ends the processes of all ranks, with exit code 1.
  void end_job() noexcept;

 private:
  void hear(const Error& verdict);

  LaunchEnvironment launch_;
  mutable std::mutex mutex_;  // guards the next two
  std::vector<std::function<void(const Error&)>> listeners_;
  std::optional<Error> failure_;
  std::unique_ptr<MpiRank> rank_;
  std::unique_ptr<MpiSession> session_;
  std::unique_ptr<Watchdog> watchdog_;  // last: it uses all members above
};

}  // namespace trireme
