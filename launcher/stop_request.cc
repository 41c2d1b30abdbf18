#include "launcher/stop_request.h"

#include <array>
#include <atomic>
#include <cassert>
#include <csignal>

namespace trireme {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1};

// A handler reaches nothing but static storage: the one mutable global of the launcher, owned by StopRequest.
std::atomic<int> received_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");
std::array<struct sigaction, kSignals.size()> former_actions;

void on_signal(int signal) {
  if (received_signal.exchange(signal) != 0 && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

}  // namespace

StopRequest::StopRequest() {
  received_signal = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // reads and writes of the run go on
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &former_actions[i]);
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_actions[i], nullptr);
}

bool StopRequest::requested() const {
  return received_signal != 0;
}

const char* StopRequest::signal_name() const {
  switch (received_signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "";
  }
}

}  // namespace trireme
