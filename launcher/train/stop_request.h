// A polite end of a run: SIGTERM, SIGINT or SIGUSR1 ask the trainer to finish the step, save and exit
// with 75.
#pragma once

#include <memory>

namespace trireme {

/// Handles the signals while it lives, and gives them back their former meaning when it goes. A second SIGINT
/// ends the process at once. At most one at a time in a process, made before the threads of the run: those
/// that exist already are not shielded from signals (see [Note: a thread for signals] in stop_request.cc).
///
/// mpirun passes SIGUSR1 on to its ranks, and SIGTERM or SIGINT with only a short time to end in.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// True after a signal has come. Ranks must agree on it before they act.
  bool requested() const;

 private:
  struct Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace trireme
