#include "launcher/supervise/lease.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/lock_file.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

std::string mark_in(int fd) {
  std::array<char, 512> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  std::string mark(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  while (!mark.empty() && mark.back() == '\n') mark.pop_back();
  return mark;
}

double seconds_since_change(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return 0;
  return std::difftime(std::time(nullptr), status.st_mtim.tv_sec);
}

}  // namespace

std::string describe_mark(const std::string& mark) {
  const auto dot = mark.find('.'), at = mark.find('@');
  if (dot == std::string::npos || at == std::string::npos || dot > at) return "an unknown process";
  return fmt::format("process {} on {}", mark.substr(0, dot), mark.substr(at + 1));
}

Lease::Lease(const std::filesystem::path& folder) {
  const auto path = folder / kFile;
  fd_ = open_lock_file(path);
  if (fd_ < 0) {
    const int reason = errno;
    throw Error(code_of_file_failure(reason),
                "cannot write into the output folder {}: {}: {}; choose another with --out", folder.string(),
                path.string(), std::strerror(reason));
  }
  const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  const std::string holder = mark_in(fd_);
  const double age_s = seconds_since_change(fd_);
  // For this host the mark shows whether its process lives; for another host only the lease's age does.
  const WriterState state = holder.empty() ? WriterState::kDead : writer_state(holder);
  const bool held = state == WriterState::kAlive ||
                    (state == WriterState::kUnknown && age_s < std::chrono::duration<double>(kLease).count());
  if (!locked || held) {
    ::close(fd_);
    fd_ = -1;
    throw Error(ErrorCode::kInvalidInput,
                "another supervisor looks after the output folder {}: {}, last seen {:.0f} s ago; wait for "
                "it, stop it, "
                "or choose another --out",
                folder.string(), describe_mark(state == WriterState::kDead ? "" : holder), age_s);
  }
  const std::string mark = writer_mark() + "\n";
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, mark.data(), mark.size(), 0) != static_cast<ssize_t>(mark.size())) {
    const int reason = errno;
    ::close(fd_);
    fd_ = -1;
    throw Error(code_of_file_failure(reason), "cannot write {}: {}", path.string(), std::strerror(reason));
  }
}

Lease::~Lease() {
  if (fd_ < 0) return;
  [[maybe_unused]] const int cleared = ::ftruncate(fd_, 0);
  ::close(fd_);
}

void Lease::renew() noexcept {
  ::futimens(fd_, nullptr);
}

}  // namespace trireme
