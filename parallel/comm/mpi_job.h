// State shared by the MPI communicators of a process: error handling, abort, the waiting mode, and
// abandoned operations.
//
// [Note: sleeping waits] MPI waits by polling. With yields in between (mpi_yield_when_idle) this takes little
// time from a rank on the same core. But to the kernel a polling rank is as busy as a computing one. So it
// may leave two computing ranks on one core and two waiting ranks on another: one job of four ranks on two
// cores took 370 ms a step with sleeping waits and 520 to 570 without. When ranks share cores they sleep
// between polls, for an eighth of the time waited so far, within limits. Then the kernel sees an idle core
// and moves a rank there. When ranks do not share cores they spin, because a sleep takes at least 70
// microseconds. All ranks of a job use the same kind of wait, as MPI matches no blocking call with a
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
  /// A run of `count` consecutive elements of `base`; successive runs start `stride` elements apart.
  MpiType(MPI_Datatype base, int count, std::int64_t stride);
  MpiType(const MpiType&) = delete;
  MpiType& operator=(const MpiType&) = delete;
  ~MpiType();
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Requests in flight, with the datatypes and tensors that they use.
struct MpiOperation {
  std::vector<MPI_Request> requests;
  std::vector<std::unique_ptr<MpiType>> types;
  std::array<Tensor, 2> tensors;
};

struct MpiJob {
  /// MPI can end the job only while it runs: MPI_Abort may hang if another thread is in MPI_Init or
  /// MPI_Finalize.
  enum class Phase : std::uint8_t { kBefore, kRunning, kAfter };

  int rank = 0;
  std::atomic<Phase> phase = Phase::kBefore;
  std::atomic<bool> aborted = false;
  std::vector<MpiOperation> abandoned;
  std::shared_ptr<RankStatus> status;              // for the others on this machine
  std::function<void(const Error& error)> report;  // shows and records what ends the job; empty: printed
  bool outlives_mpi = false;                       // the status, of a rank that is watched until it exits
  bool ends_mpi = true;                            // false: the program that started MPI does
  std::unique_ptr<MpiProgress> progress;           // null: data moves inside of this rank's calls only
  bool sleeps = false;                             // in waits, as all ranks do: [Note: sleeping waits]

  /// Throws Error(kCommunication) with `call` and MPI's text unless `result` is MPI_SUCCESS.
  void check(int result, const std::string& call) const;
  /// Reports the error, with the rank in front of its message unless it is named there, and ends the job with
  /// exit code 1, the first time. Returns only when MPI is not running.
  void abort(const Error& error) noexcept;
  /// MPI_Wait, whose result it returns.
  int wait(MPI_Request* request, MPI_Status* status) const;
  /// Makes a collective call by its blocking version or, with sleeping waits, its nonblocking version, which
  /// has one more argument: the request. Throws like check().
  template <class Blocking, class Nonblocking, class... Args>
  void call(const std::string& name, Blocking blocking, Nonblocking nonblocking, Args... args) const {
    if (!sleeps) return check(blocking(args...), name);
    MPI_Request request = MPI_REQUEST_NULL;
    check(nonblocking(args..., &request), name);
    check(wait(&request, MPI_STATUS_IGNORE), name);
  }
  /// Starts or ends the progress thread. Throws Error(kUnsupported) if this MPI allows calls from only one
  /// thread at a time.
  void set_progress(bool wanted);
  /// Frees abandoned operations that are complete.
  void release_abandoned() noexcept;
};

/// True between MPI_Init and MPI_Finalize.
bool mpi_is_running() noexcept;

}  // namespace trireme
