#include "launcher/train/termination_delay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>

namespace trireme {
namespace {

constexpr auto kDelay = std::chrono::seconds(1);

sigset_t termination() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

bool is_handled_elsewhere() {
  struct sigaction action = {};
  sigaction(SIGTERM, nullptr, &action);
  return action.sa_handler != SIG_DFL;
}

}  // namespace

struct TerminationDelay::Listener {
  const sigset_t set = termination();
  sigset_t former_mask = {};
  int signals = -1, end = -1;
  std::thread thread;

  Listener() {
    pthread_sigmask(SIG_BLOCK, &set, &former_mask);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    end = eventfd(0, EFD_CLOEXEC);
    thread = std::thread([this] { listen(); });
  }
  ~Listener() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(end, &one, sizeof(one));
    thread.join();
    close(signals);
    close(end);
    pthread_sigmask(SIG_SETMASK, &former_mask, nullptr);
  }
  // The signal stays pending, and takes effect once it is unblocked.
  void listen() const {
    std::array<pollfd, 2> polled = {pollfd{signals, POLLIN, 0}, pollfd{end, POLLIN, 0}};
    while (poll(polled.data(), polled.size(), -1) < 0) {
    }
    if (polled[0].revents == 0) return;
    std::this_thread::sleep_for(kDelay);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
};

TerminationDelay::TerminationDelay() {
  if (!is_handled_elsewhere()) listener_ = std::make_unique<Listener>();
}

TerminationDelay::~TerminationDelay() = default;

}  // namespace trireme
