// Threads as ranks of one process: for tests, examples and several ranks without MPI. Host memory only.
//
// Sums are taken in rank order, so results are the same on every run. A failing rank, ranks that disagree
// about a call, and a deadlock end the job with a message; nothing hangs (see [Note: local ranks never
// hang]).
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/communicator.h"

namespace trireme {

class LocalBoard;

/// `size` ranks that can talk to each other. The caller runs them, one thread each.
class LocalWorld {
 public:
  explicit LocalWorld(int size);

  int size() const { return size_; }
  /// The communicator of one rank; may outlive the world. Throws Error(kInvalidInput) when there is no such
  /// rank.
  std::shared_ptr<Communicator> communicator(int rank) const;
  /// To be called when a rank makes no more calls, so that peers who wait for it fail.
  void finish(int rank) const noexcept;

 private:
  friend void run_local_ranks(int size, const std::function<void(std::shared_ptr<Communicator>)>& rank_main);

  int size_;
  std::shared_ptr<LocalBoard> board_;
};

/// Runs rank_main(communicator) on `size` new threads and returns when all have ended. When a rank throws or
/// aborts, the pending and later calls of all others throw Error(kCommunication) naming it, and this rethrows
/// the first failure, under its code, with "rank R: " in front unless it names the rank itself.
void run_local_ranks(int size, const std::function<void(std::shared_ptr<Communicator>)>& rank_main);

}  // namespace trireme
