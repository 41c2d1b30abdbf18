// Lets a rank live for a second after SIGTERM, to say why.
//
// mpirun sends SIGTERM to all ranks when one has died, and SIGKILL a second later. In between a rank's
// watchdog says who died, in what (parallel/watch/watchdog.h).
#pragma once

#include <memory>

namespace trireme {

class TerminationDelay {
 public:
  /// Before other threads start: none of them handles the signal (see [Note: a thread for signals] in
  /// stop_request.cc). Does nothing where the process has its own way with SIGTERM.
  TerminationDelay();
  TerminationDelay(const TerminationDelay&) = delete;
  TerminationDelay& operator=(const TerminationDelay&) = delete;
  ~TerminationDelay();

 private:
  struct Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace trireme
