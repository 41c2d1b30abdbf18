// State that the MPI communicators of a process share: its errors, its end, how it waits, and operations that
// nobody waits for.
//
// [Note: sleeping waits] MPI waits by looking again and again; with yields in between (mpi_yield_when_idle)
// this takes little from a rank on the same core. But to the kernel a rank that looks is as busy as one that
// computes. So it leaves two that compute on one core while two that wait have the other, for as long as that
// lasts: one job of four ranks on two cores took 370 ms a step with sleeping waits and 520 to 570 without.
// Where ranks share cores they sleep between looks, for an eighth of what they waited already, within limits:
// then the kernel sees an idle core, and moves a rank there. Where they do not they spin: a sleep takes some
// 70 microseconds at least. All ranks of a job are of one kind, as MPI matches no blocking call with a
// nonblocking one.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/mpi_progress.h"
#include "parallel/comm/rank_board.h"
#include "runtime/base/error.h"
#include "runtime/tensor.h"

namespace trireme {

/// A derived datatype.
class MpiType {
 public:
  /// `count` elements of `base`, each such run `stride` elements after the one before.
  MpiType(MPI_Datatype base, int count, std::int64_t stride);
  MpiType(const MpiType&) = delete;
  MpiType& operator=(const MpiType&) = delete;
  ~MpiType();
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Requests in flight, with what they use.
struct MpiOperation {
  std::vector<MPI_Request> requests;
  std::vector<std::unique_ptr<MpiType>> types;
  std::array<Tensor, 2> tensors;
};

struct MpiJob {
  /// Only while MPI runs can it end the job: MPI_Abort beside MPI_Init or MPI_Finalize in another thread may
  /// hang.
  enum class Phase : std::uint8_t { kBefore, kRunning, kAfter };

  int rank = 0;
  std::atomic<Phase> phase = Phase::kBefore;
  std::atomic<bool> aborted = false;
  std::vector<MpiOperation> abandoned;
  std::shared_ptr<RankStatus> status;              // for the others on this machine
  std::function<void(const Error& error)> report;  // shows and records what ends the job; empty: printed
  bool outlives_mpi = false;                       // the status, of a rank that is watched until it exits
  std::unique_ptr<MpiProgress> progress;           // null: data moves inside of this rank's calls only
  bool sleeps = false;                             // in waits, as all ranks do: [Note: sleeping waits]

  /// Throws Error(kCommunication) that names `call` and holds MPI's text unless `result` is MPI_SUCCESS.
  void check(int result, const std::string& call) const;
  /// Reports the error, with the rank in front of its message unless it is named there, and ends the job with
  /// exit code 1, the first time. Returns only when MPI is not running.
  void abort(const Error& error) noexcept;
  /// MPI_Wait, whose result it returns.
  int wait(MPI_Request* request, MPI_Status* status) const;
  /// Makes a collective call, by its blocking or its nonblocking version, which have the same arguments but
  /// for the latter's request. Throws as check() does.
  template <class Blocking, class Nonblocking, class... Args>
  void call(const std::string& name, Blocking blocking, Nonblocking nonblocking, Args... args) const {
    if (!sleeps) return check(blocking(args...), name);
    MPI_Request request = MPI_REQUEST_NULL;
    check(nonblocking(args..., &request), name);
    check(wait(&request, MPI_STATUS_IGNORE), name);
  }
  /// Starts or ends the progress thread. Throws Error(kUnsupported) when this MPI takes calls from one thread
  /// at a time only.
  void set_progress(bool wanted);
  /// Lets go of abandoned operations that are complete.
  void release_abandoned() noexcept;
};

/// Between MPI_Init and MPI_Finalize.
bool mpi_is_running() noexcept;

}  // namespace trireme
