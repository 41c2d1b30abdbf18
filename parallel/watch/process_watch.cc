#include "parallel/watch/process_watch.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace trireme {

ProcessWatch::ProcessWatch(const std::vector<int>& processes)
    : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  for (const int process : processes) add(process);
}

void ProcessWatch::add(int process) {
  // Uses the syscall number, because glibc 2.36 declares pidfd_open() for C only.
  const auto handle = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (handle >= 0) watched_.push_back({num_added_, handle});
  ++num_added_;
}

ProcessWatch::~ProcessWatch() {
  for (const Watched& one : watched_) close(one.handle);
  close(wake_);
}

std::optional<std::size_t> ProcessWatch::wait(double seconds) {
  std::vector<pollfd> polled = {{wake_, POLLIN, 0}};
  for (const Watched& one : watched_) polled.push_back({one.handle, POLLIN, 0});
  const int limit_ms = seconds < 0 ? -1 : static_cast<int>(seconds * 1e3) + 1;
  if (poll(polled.data(), polled.size(), limit_ms) <= 0) return std::nullopt;
  std::uint64_t count = 0;
  if (polled[0].revents != 0 && read(wake_, &count, sizeof(count)) > 0) return std::nullopt;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    if (polled[i + 1].revents == 0) continue;
    const Watched ended = watched_[i];
    watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
    close(ended.handle);
    return ended.slot;
  }
  return std::nullopt;
}

void ProcessWatch::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

bool is_stopped(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string line(std::istreambuf_iterator<char>(file), {});
  const auto name_end = line.rfind(')');  // the name may contain blanks and parentheses
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return false;
  const char state = line[name_end + 2];
  return state == 'T' || state == 't';
}

}  // namespace trireme
