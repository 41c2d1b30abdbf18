// Signals to a supervisor, which polls them: SIGTERM, SIGINT, SIGUSR1, and SIGHUP unless it is ignored, as
// under nohup.
#pragma once

#include <csignal>

namespace trireme {

/// Blocks the signals during its lifetime. For processes without other threads.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// A pending signal; 0 if there is none.
  int take();

 private:
  sigset_t signals_ = {}, former_ = {};
};

}  // namespace trireme
