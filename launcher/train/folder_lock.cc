#include "launcher/train/folder_lock.h"

#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/lock_file.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

std::string host_name() {
  std::array<char, 128> host{};
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

/// The process that wrote the file, unless it has ended: then another process holds the lock.
std::string holder_of(int fd) {
  std::array<char, 256> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size() - 1, 0);
  std::string holder(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  int process = 0, end = 0;
  const bool is_named = std::sscanf(holder.c_str(), "process %d on %n", &process, &end) == 1 && process > 0;
  const bool is_here = is_named && holder.substr(static_cast<std::size_t>(end)) == host_name();
  if (is_here && ::kill(process, 0) != 0 && errno == ESRCH) return "another process";
  return holder.empty() ? "another process" : holder;
}

void write_holder(int fd) {
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host_name());
  // For people only; the lock is valid without it.
  if (::ftruncate(fd, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  fd_ = open_lock_file(path);
  if (fd_ < 0) {
    const int error_number = errno;
    throw Error(code_of_file_failure(error_number),
                "cannot write into the output folder {}: {}: {}; choose another with --out", folder.string(),
                path.string(), std::strerror(error_number))
        .about({.file = path.string(), .system_error = error_number});
  }
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    write_holder(fd_);
    return;
  }
  const int reason = errno;
  const std::string holder = holder_of(fd_);
  ::close(fd_);
  fd_ = -1;
  TRIREME_CHECK(reason != EWOULDBLOCK,
                "another run is writing into the output folder {}: {}; wait for it, or choose another --out",
                folder.string(), holder);
  log_warning(
      fmt::format("the output folder {} cannot be locked ({}): see to it that no other run writes there",
                  folder.string(), std::strerror(reason)));
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace trireme
