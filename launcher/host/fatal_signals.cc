#include "launcher/host/fatal_signals.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>

#include "launcher/host/exit_code.h"

namespace trireme {
namespace {

constexpr int kMaxFrames = 64;
constexpr unsigned kMaxSeconds = 5;  // for a stack

// A signal handler may call only functions such as write() and _exit(): others may wait for a lock that the
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

// The signal is blocked until this returns, and then ends the process.
void on_crash(int signal) {
  ::alarm(kMaxSeconds);
  std::array<char, 160> text;
  const auto end =
      fmt::format_to_n(text.data(), text.size(),
                       "trireme: error: process {} received signal {} (SIG{}), which means a defect unless "
                       "somebody sent it; report it with this stack:\n",
                       ::getpid(), signal, ::sigabbrev_np(signal));
  write_error({text.data(), end.out});
  std::array<void*, kMaxFrames> frames;
  ::backtrace_symbols_fd(frames.data(), ::backtrace(frames.data(), kMaxFrames), STDERR_FILENO);
  ::raise(signal);
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void report_fatal_signals() {
  std::array<void*, 1> frame;
  ::backtrace(frame.data(), 1);  // the first call loads a library and allocates
  handle(SIGBUS, on_bus_error, 0);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL}) handle(signal, on_crash, SA_RESETHAND);
}

}  // namespace trireme
