#include "launcher/supervise/signal_inbox.h"

#include <pthread.h>

namespace trireme {

SignalInbox::SignalInbox() {
  sigemptyset(&signals_);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals_, signal);
  // Under nohup, closing the terminal must change nothing.
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&signals_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals_, &former_);
}

SignalInbox::~SignalInbox() {
  while (take() != 0) {
  }
  pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

int SignalInbox::take() {
  const timespec at_once = {};
  const int signal = sigtimedwait(&signals_, nullptr, &at_once);
  return signal > 0 ? signal : 0;
}

}  // namespace trireme
