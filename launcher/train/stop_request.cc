#include "launcher/train/stop_request.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <csignal>
#include <semaphore>
#include <thread>

namespace trireme {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1};

// A signal handler can access only static storage: this is the launcher's one mutable global, owned by
// StopRequest.
std::atomic<int> received_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");

void on_signal(int signal) {
  if (received_signal.exchange(signal) != 0 && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

}  // namespace

// [Note: a thread for signals] A handler that interrupts a computing thread writes its frame below that
// thread's stack pointer. Product kernels that are generated at run time use the stack pointer for other
// purposes: results became wrong, or the process crashed. So all threads but one block the signals, and that
// thread does nothing else.
struct StopRequest::Listener {
  std::array<struct sigaction, kSignals.size()> former_actions;
  sigset_t former_mask;
  std::binary_semaphore started{0}, done{0};
  std::thread thread;

  Listener() {
    const sigset_t set = stop_signals();
    pthread_sigmask(SIG_BLOCK, &set, &former_mask);
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // restart interrupted reads and writes of the run
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &former_actions[i]);
    thread = std::thread([this, set] {
      pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      started.release();
      done.acquire();
    });
    // Wait until the thread only waits. While it starts it may hold the allocator's lock, and a process
    // forked at that time (mpirun_watch.h) would find the lock taken for ever.
    started.acquire();
  }
  ~Listener() {
    done.release();
    thread.join();
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_actions[i], nullptr);
    pthread_sigmask(SIG_SETMASK, &former_mask, nullptr);
  }
};

StopRequest::StopRequest() {
  received_signal = 0;
  listener_ = std::make_unique<Listener>();
}

StopRequest::StopRequest(NoSignals) {}

StopRequest::~StopRequest() = default;

bool StopRequest::requested() const {
  return called_ || (listener_ != nullptr && received_signal != 0);
}

}  // namespace trireme
