// Threads of one process as ranks: for tests, examples and several ranks without MPI. Host memory only.
//
// Sums run in rank order, so results are the same on every run. A failing rank, ranks that disagree about a
// call, and a deadlock end the job with an error; nothing hangs (see [Note: local ranks never hang]).
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/communicator.h"

namespace trireme {

class LocalBoard;

/// `size` connected ranks. The caller runs them, one thread each.
class LocalWorld {
 public:
  explicit LocalWorld(int size);

  int size() const { return size_; }
  /// The communicator of one rank; may outlive the world. Throws Error(kInvalidInput) if there is no such
  /// rank.
  std::shared_ptr<Communicator> communicator(int rank) const;
  /// Call when a rank makes no more calls, so that peers waiting for it fail.
  void finish(int rank) const noexcept;

 private:
  friend void run_local_ranks(int size, const std::function<void(std::shared_ptr<Communicator>)>& rank_main);

  int size_;
  std::shared_ptr<LocalBoard> board_;
};

/// Runs rank_main(communicator) on `size` new threads and returns when all have ended. When a rank throws or
/// aborts, the pending and later calls of all others throw Error(kCommunication) naming it. This function
/// then rethrows the first failure with its code, and with the prefix "rank R: " unless it names the rank
/// itself.
void run_local_ranks(int size, const std::function<void(std::shared_ptr<Communicator>)>& rank_main);

}  // namespace trireme
