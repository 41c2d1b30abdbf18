// Processes started by mpirun as ranks, over Open MPI. Host memory only.
//
// Open MPI moves data only inside its calls: operations posted early progress when any call waits. A waiting
// rank keeps its core busy unless sleeping is enabled ([Note: sleeping waits] in mpi_job.h).
//
// MPI cannot detect that ranks disagree about a collective; run the same program on `local` ranks to find
// out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "parallel/comm/communicator.h"

namespace trireme {

struct MpiJob;

/// Maximum number of elements in one MPI call, whose counts are of type int. Larger calls are split into
/// several, in the same way on every rank.
inline constexpr std::int64_t kMaxMpiCount = 0x7fffffff;

/// This process as a rank on its machine's board, from before MPI starts until after it has ended. The other
/// ranks of the machine can read its status (rank_board.h), so that a watchdog can detect missing, stopped
/// and dead ranks at any time.
class MpiRank {
 public:
  struct LaunchInfo {
    std::string board_file;  // of this job on this machine, in a folder removed with the job; empty: none
    int rank = 0;
    int local_rank = 0;
    int num_local_ranks = 1;
    /// Called by abort(), in place of printing the message, before any process ends. Must not throw.
    std::function<void(const Error& error)> report = {};
  };
  /// Enters the board of the machine. If `launch` does not identify it, this rank has its own board until MPI
  /// runs.
  explicit MpiRank(const LaunchInfo& launch);
  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;
  /// Marks the rank as ended, so that its exit is not reported as a death.
  ~MpiRank();

  /// May change when MPI starts, if the board had to be created with MPI.
  const std::shared_ptr<RankStatus>& status() const;
  /// Reports the error, naming the rank, the first time. While MPI runs it ends the job with exit code 1;
  /// else it returns, and the process has to exit with that code, which ends the job, too. From any thread.
  void abort(const Error& error) noexcept;

 private:
  friend class MpiSession;
  std::shared_ptr<MpiJob> job_;
};

/// A communicator of a program that started MPI itself and will end it, such as mpi4py: its number in Fortran
/// (MPI_Comm_c2f), which does not depend on the headers that the program was built with.
struct ForeignMpi {
  int fortran_comm = 0;
};

/// MPI from initialisation to finalisation: one per process, alive while any communicator is used.
class MpiSession {
 public:
  /// Joins the job that mpirun started; without mpirun, a job of one rank. Throws Error(kCommunication) if
  /// MPI does not start or its thread support is insufficient, Error(kInvalidInput) if MPI is or was running.
  MpiSession();
  /// The same for a process already registered as a rank, which outlives the session.
  explicit MpiSession(const MpiRank& rank);
  /// Joins the job in which `rank` runs MPI already, and leaves MPI running. Collective. Throws
  /// Error(kCommunication) if MPI does not run, or not with MPI_THREAD_MULTIPLE; Error(kUnsupported) if the
  /// communicator is not that of all ranks in the order of MPI_COMM_WORLD.
  MpiSession(const MpiRank& rank, ForeignMpi foreign);
  MpiSession(MpiSession&& other) noexcept;
  MpiSession& operator=(MpiSession&&) = delete;
  /// Waits for all ranks and ends MPI. While an exception unwinds the stack it ends the job instead, as the
  /// others may be waiting for this rank. To report the reason, catch the exception inside the session and
  /// call abort().
  ~MpiSession();

  /// All ranks of the job.
  const std::shared_ptr<Communicator>& world() const { return world_; }
  /// Collective: creates another communicator of all ranks, which passes at most `max_count` elements to one
  /// MPI call.
  std::shared_ptr<Communicator> make_communicator(std::int64_t max_count = kMaxMpiCount) const;

  /// Rank within the node: the ranks that share memory.
  int local_rank() const { return local_rank_; }
  int num_local_ranks() const { return num_local_ranks_; }

 private:
  explicit MpiSession(std::shared_ptr<MpiJob> job);
  void join();

  std::shared_ptr<MpiJob> job_;  // null after a move
  std::shared_ptr<Communicator> world_;
  int local_rank_ = 0;
  int num_local_ranks_ = 1;
  int num_exceptions_ = 0;
};

}  // namespace trireme
