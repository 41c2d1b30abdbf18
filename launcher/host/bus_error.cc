#include "launcher/host/bus_error.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "launcher/host/exit_code.h"

namespace trireme {
namespace {

// A signal handler may call only functions such as write() and _exit(), so the message cannot name the file.
void on_bus_error(int) {
  constexpr std::string_view kMessage =
      "trireme: error: a file that is read through memory (token data or a checkpoint) became shorter, or "
      "its disk failed, while the run was using it: restore it, and start again to resume\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(static_cast<int>(ExitCode::kFailed));
}

}  // namespace

void report_bus_errors() {
  struct sigaction action = {};
  action.sa_handler = on_bus_error;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace trireme
