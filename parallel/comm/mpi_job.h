// State that the MPI communicators of a process share: its errors, its end, and operations that nobody waits
// for.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/last_word.h"
#include "parallel/comm/mpi_progress.h"
#include "parallel/comm/rank_board.h"
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
  std::shared_ptr<RankStatus> status;     // for the others on this machine
  std::shared_ptr<LastWord> last_word;    // for a supervisor; null: there is no memory for it
  bool outlives_mpi = false;              // the status, of a rank that is watched until it exits
  std::unique_ptr<MpiProgress> progress;  // null: data moves inside of this rank's calls only

  /// Throws Error(kCommunication) that names `call` and holds MPI's text unless `result` is MPI_SUCCESS.
  void check(int result, const std::string& call) const;
  /// Prints the message, with the rank in front unless it is named there, and ends the job with exit code 1,
  /// the first time. Returns only when MPI is not running.
  void abort(const std::string& message) noexcept;
  /// Starts or ends the progress thread. Throws Error(kUnsupported) when this MPI takes calls from one thread
  /// at a time only.
  void set_progress(bool wanted);
  /// Lets go of abandoned operations that are complete.
  void release_abandoned() noexcept;
};

/// Between MPI_Init and MPI_Finalize.
bool mpi_is_running() noexcept;

}  // namespace trireme
