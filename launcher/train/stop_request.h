// Clean stop of a run: on SIGTERM, SIGINT or SIGUSR1 the trainer finishes the step, saves, and exits with
// code 75.
#pragma once

#include <memory>

namespace trireme {

/// Handles the signals during its lifetime, then restores the former handlers. A second SIGINT ends the
/// process at once. Only one instance may exist, and it must be created before the threads of the run:
/// existing threads are not shielded from signals (see [Note: a thread for signals] in stop_request.cc).
///
/// mpirun forwards SIGUSR1 to its ranks. It also forwards SIGTERM and SIGINT, but kills the ranks shortly
/// afterwards.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// True after a signal. Ranks must agree on it before they act.
  bool requested() const;

 private:
  struct Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace trireme
