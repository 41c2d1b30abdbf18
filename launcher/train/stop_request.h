// Clean stop of a run: on SIGTERM, SIGINT or SIGUSR1 the trainer finishes the step, saves, and exits with
// code 75.
#pragma once

#include <atomic>
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
  /// Handles no signals: for programs that embed the training loop and call request().
  enum class NoSignals : bool { kYes };
  explicit StopRequest(NoSignals);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Has the effect of a signal. From any thread.
  void request() { called_ = true; }
  /// True after a signal or request(). Ranks must agree on it before they act.
  bool requested() const;

 private:
  struct Listener;
  std::unique_ptr<Listener> listener_;  // null: no signals
  std::atomic<bool> called_ = false;
};

}  // namespace trireme
