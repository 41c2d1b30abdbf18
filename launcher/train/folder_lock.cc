#include "launcher/train/folder_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

std::string holder_of(int fd) {
  std::array<char, 256> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  return holder.empty() ? "another process" : holder;
}

void write_holder(int fd) {
  std::array<char, 128> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host.data());
  // For people only; the lock is valid without it.
  if (::ftruncate(fd, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
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
