// Signals to a supervisor, which it reads when it has the time: SIGTERM, SIGINT, SIGUSR1 and, unless it is
// ignored as under nohup, SIGHUP.
#pragma once

#include <csignal>

namespace trireme {

/// Blocks the signals while it lives. In a process without other threads.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// One that has come; 0 for none.
  int take();

 private:
  sigset_t signals_ = {}, former_ = {};
};

}  // namespace trireme
