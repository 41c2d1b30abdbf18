#include "launcher/host/fatal_signals.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string_view>

#include "launcher/host/exit_code.h"

namespace trireme {
namespace {

constexpr int kMaxFrames = 64;
constexpr unsigned kMaxSeconds = 30;  // for a stack

std::atomic<int> crash = 0;  // the signal

// A signal handler is to call functions such as write() and _exit() only: others may wait for a lock that the
// interrupted function holds.
void write_error(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// Cannot name the file.
void on_bus_error(int) {
  write_error(
      "trireme: error: a file that is read through memory (token data or a checkpoint) became shorter, or "
      "its disk failed, while the run was using it: restore it, and start again to resume\n");
  ::_exit(static_cast<int>(ExitCode::kFailed));
}

void on_alarm(int) {
  ::_exit(128 + crash);
}

// Printing a stack takes a lock of the dynamic linker, so it can wait after all.
void limit_time() {
  std::signal(SIGALRM, on_alarm);
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  ::alarm(kMaxSeconds);
}

void on_crash(int signal) {
  int none = 0;
  if (!crash.compare_exchange_strong(none, signal)) {
    while (true) ::pause();  // another thread prints its stack
  }
  limit_time();
  std::array<char, 160> text;
  const auto end =
      fmt::format_to_n(text.data(), text.size(),
                       "trireme: error: process {} received signal {} (SIG{}), which means a defect unless "
                       "somebody sent it; report it with this stack:\n",
                       ::getpid(), signal, ::sigabbrev_np(signal));
  write_error({text.data(), end.out});
  std::array<void*, kMaxFrames> frames;
  ::backtrace_symbols_fd(frames.data(), ::backtrace(frames.data(), kMaxFrames), STDERR_FILENO);
  std::signal(signal, SIG_DFL);
  ::raise(signal);  // blocked until this function returns
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void report_fatal_signals() {
  std::array<void*, 1> frame;
  ::backtrace(frame.data(), 1);  // the first call loads a library and allocates
  handle(SIGBUS, on_bus_error);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL}) handle(signal, on_crash);
}

}  // namespace trireme
