#include "launcher/train/mpirun_watch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// mpirun ends some milliseconds after its last process, or some seconds on a busy machine.
constexpr auto kPatience = std::chrono::seconds(5);
// Every rank has a helper and one is enough, so they act at different times.
constexpr auto kBetweenRanks = std::chrono::seconds(1);
constexpr auto kMpirunPoll = std::chrono::milliseconds(50);
// mpirun treats a second SIGTERM within 5 s as a request to exit at once, with exit code 1.
constexpr auto kBetweenSignals = std::chrono::milliseconds(300);

bool is_mpirun(pid_t process) {
  std::error_code error;
  const std::string name = fs::read_symlink(fmt::format("/proc/{}/exe", process), error).filename();
  return name == "orterun" || name == "orted" || name == "mpirun";
}

bool is_alive(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');  // the name may contain blanks and parentheses
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return false;
  return line[name_end + 2] != 'Z' && line[name_end + 2] != 'X';
}

/// True if mpirun has a child left, or if the system does not show its children.
bool has_living_child(pid_t mpirun) {
  std::error_code error;
  for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", mpirun), error)) {
    std::ifstream file(thread.path() / "children");
    if (!file) return true;
    for (std::string child; file >> child;) {
      if (is_alive(child)) return true;
    }
  }
  return static_cast<bool>(error);
}

bool has_ended(int process_handle, Clock::duration limit) {
  pollfd polled = {process_handle, POLLIN, 0};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  return poll(&polled, 1, static_cast<int>(ms)) > 0;
}

// The helper has closed its own standard error, so that mpirun sees its ranks' streams end.
void say_on_standard_error_of(pid_t process, const std::string& text) {
  const int file =
      open(fmt::format("/proc/{}/fd/2", process).c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, text.data(), text.size());
  close(file);
}

void end_mpirun(pid_t mpirun, int handle) {
  say_on_standard_error_of(
      mpirun, fmt::format("trireme: mpirun (process {}) hangs, although all of its processes have ended: a "
                          "rank died while it connected to mpirun; mpirun is ended now\n",
                          mpirun));
  for (const int signal : {SIGTERM, SIGTERM, SIGKILL}) {
    syscall(SYS_pidfd_send_signal, handle, signal, nullptr, 0);
    if (has_ended(handle, kBetweenSignals)) return;
  }
}

// Main function of the helper: waits until its rank has joined or is gone, and then until mpirun is gone.
void watch(pid_t mpirun, int handle, int rank_alive, Clock::duration patience) {
  pollfd polled[] = {{rank_alive, POLLIN, 0}, {handle, POLLIN, 0}};
  if (poll(polled, 2, -1) < 0 || polled[1].revents != 0) return;
  char joined = 0;
  if (read(rank_alive, &joined, 1) != 0) return;
  auto busy_until = Clock::now();
  while (!has_ended(handle, kMpirunPoll)) {
    if (has_living_child(mpirun)) busy_until = Clock::now();
    if (Clock::now() - busy_until > patience) return end_mpirun(mpirun, handle);
  }
}

// Releases everything that other processes may wait for: files, the rank's process group, its folder.
bool leave_rank(int first, int second) {
  const auto low = static_cast<unsigned>(std::min(first, second)),
             high = static_cast<unsigned>(std::max(first, second));
  const auto close_files = [](unsigned from, unsigned to) {
    return from > to || syscall(SYS_close_range, from, to, 0) == 0;
  };
  std::signal(SIGPIPE, SIG_IGN);
  return setsid() >= 0 && chdir("/") == 0 && low > 0 && close_files(0, low - 1) &&
         close_files(low + 1, high - 1) && close_files(high + 1, ~0U);
}

}  // namespace

MpirunWatch::MpirunWatch(int local_rank) {
  const pid_t mpirun = getppid();
  if (!is_mpirun(mpirun)) return;
  const auto handle = static_cast<int>(syscall(SYS_pidfd_open, mpirun, 0));
  int ends[2] = {-1, -1};
  if (handle >= 0 && getppid() == mpirun && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
    process_ = fork();
    if (process_ == 0) {
      close(ends[1]);
      try {
        if (leave_rank(ends[0], handle)) {
          watch(mpirun, handle, ends[0], kPatience + local_rank * kBetweenRanks);
        }
      } catch (const std::exception&) {  // the file's process ended meanwhile
      }
      _exit(0);
    }
    close(ends[0]);
    alive_ = ends[1];
  }
  if (handle >= 0) close(handle);
}

MpirunWatch::~MpirunWatch() {
  if (alive_ < 0) return;
  const char joined = 1;
  [[maybe_unused]] const ssize_t sent = send(alive_, &joined, 1, MSG_NOSIGNAL);
  close(alive_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

}  // namespace trireme
