// Keeps a rank alive for a second after SIGTERM, to report the cause.
//
// When a rank has died, mpirun sends SIGTERM to all ranks, and SIGKILL a second later. In between, a rank's
// watchdog reports which rank died, and in which action (parallel/watch/watchdog.h).
#pragma once

#include <memory>

namespace trireme {

class TerminationDelay {
 public:
  /// Create before other threads start, so that none of them handles the signal (see [Note: a thread for
  /// signals] in stop_request.cc). Does nothing if the process already handles SIGTERM.
  TerminationDelay();
  TerminationDelay(const TerminationDelay&) = delete;
  TerminationDelay& operator=(const TerminationDelay&) = delete;
  ~TerminationDelay();

 private:
  struct Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace trireme
