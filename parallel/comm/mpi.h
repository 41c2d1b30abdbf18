// Processes started by mpirun as ranks, over Open MPI. Host memory only.
//
// Open MPI moves data only while some rank is inside of a call: what is posted early progresses when anything
// is waited for. A waiting rank keeps its core busy (README.md says what to do when ranks outnumber cores).
//
// MPI cannot tell that ranks disagree about a collective; run the same program on `local` ranks to find out.
#pragma once

#include <cstdint>
#include <memory>

#include "parallel/comm/communicator.h"

namespace trireme {

struct MpiJob;

/// Largest number of elements handed to one MPI call, whose counts are of type int. Beyond it, calls are cut
/// into several, as every rank does alike.
inline constexpr std::int64_t kMaxMpiCount = 0x7fffffff;

/// MPI from initialisation to finalisation: one in a process, alive while any communicator is used.
class MpiSession {
 public:
  /// Joins the job that mpirun started; without mpirun, a job of one rank. Throws Error(kCommunication) when
  /// MPI does not start or its thread support does not suffice, Error(kInvalidInput) when MPI is or was
  /// running.
  MpiSession();
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
  std::shared_ptr<MpiJob> job_;  // null after a move
  std::shared_ptr<Communicator> world_;
  int local_rank_ = 0;
  int num_local_ranks_ = 1;
  int num_exceptions_ = 0;
};

}  // namespace trireme
