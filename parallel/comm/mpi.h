// Processes started by mpirun as ranks, over Open MPI. Host memory only.
//
// Open MPI moves data only while some rank is inside of a call: what is posted early progresses when anything
// is waited for. A waiting rank keeps its core busy, unless it is told to sleep ([Note: sleeping waits] in
// mpi_job.h).
//
// MPI cannot tell that ranks disagree about a collective; run the same program on `local` ranks to find out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "parallel/comm/communicator.h"

namespace trireme {

struct MpiJob;

/// Largest number of elements handed to one MPI call, whose counts are of type int. Beyond it, calls are cut
/// into several, as every rank does alike.
inline constexpr std::int64_t kMaxMpiCount = 0x7fffffff;

/// This process as a rank for the others on its machine, from before MPI starts until after it has ended.
/// They see what it does (rank_board.h), so that a watchdog can tell who is missing, stopped or gone at any
/// time.
class MpiRank {
 public:
  struct LaunchInfo {
    std::string board_file;  // of this job on this machine, in a folder that goes with the job; empty: none
    int rank = 0;
    int local_rank = 0;
    int num_local_ranks = 1;
    /// Called by abort(), in place of printing the message, before any process ends. Must not throw.
    std::function<void(const Error& error)> report = {};
  };
  /// Enters the board of the machine. Where the launcher has not told enough to find it, this rank has one of
  /// its own until MPI runs.
  explicit MpiRank(const LaunchInfo& launch);
  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;
  /// From here on the rank's end is no news.
  ~MpiRank();

  /// Another one after MPI has started, where the board had to be made with its help.
  const std::shared_ptr<RankStatus>& status() const;
  /// Reports the error, naming the rank, the first time. While MPI runs it ends the job with exit code 1;
  /// else it returns, and the process has to exit with that code, which ends the job, too. From any thread.
  void abort(const Error& error) noexcept;

 private:
  friend class MpiSession;
  std::shared_ptr<MpiJob> job_;
};

/// MPI from initialisation to finalisation: one in a process, alive while any communicator is used.
class MpiSession {
 public:
  /// Joins the job that mpirun started; without mpirun, a job of one rank. Throws Error(kCommunication) when
  /// MPI does not start or its thread support does not suffice, Error(kInvalidInput) when MPI is or was
  /// running.
  MpiSession();
  /// The same for a process that is known as a rank already, and stays one.
  explicit MpiSession(const MpiRank& rank);
  MpiSession(MpiSession&& other) noexcept;
  MpiSession& operator=(MpiSession&&) = delete;
  /// Waits for all ranks and ends MPI. While an exception unwinds the stack it ends the job instead, as the
  /// others may be waiting for this rank; catch it inside of the session and abort() to say why.
  ~MpiSession();

  /// All ranks of the job.
  const std::shared_ptr<Communicator>& world() const { return world_; }
  /// Collective: one more communicator of all ranks, which hands at most `max_count` elements to one MPI
  /// call.
  std::shared_ptr<Communicator> make_communicator(std::int64_t max_count = kMaxMpiCount) const;

  /// Of the ranks that share this one's memory (its node).
  int local_rank() const { return local_rank_; }
  int num_local_ranks() const { return num_local_ranks_; }

 private:
  explicit MpiSession(std::shared_ptr<MpiJob> job);

  std::shared_ptr<MpiJob> job_;  // null after a move
  std::shared_ptr<Communicator> world_;
  int local_rank_ = 0;
  int num_local_ranks_ = 1;
  int num_exceptions_ = 0;
};

}  // namespace trireme
