#include "runtime/base/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"

namespace trireme {

void check_is_no_link(const std::filesystem::path& path) {
  std::error_code error;
  TRIREME_CHECK(
      !std::filesystem::is_symlink(path, error),
      "cannot write {}: it is a link to {}, and a job writes this file in its own folder: remove the "
      "link, or name another output folder",
      path.string(), std::filesystem::read_symlink(path, error).string());
}

AppendedFile::AppendedFile(const std::filesystem::path& path) : path_(path) {
  check_is_no_link(path);
  // Opened for reading too, which does not wait for the reader of a pipe.
  fd_ = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
               0666);
  const int reason = errno;
  if (fd_ < 0)
    throw Error(code_of_file_failure(reason), "cannot write {}: {}", path.string(), std::strerror(reason))
        .about({.file = path.string(), .system_error = reason});
  struct stat info {};
  if (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) return;
  ::close(fd_);  // no destructor runs for what was not constructed
  throw Error(ErrorCode::kInvalidInput, "cannot write {}: it is a {}, not a regular file", path.string(),
              S_ISFIFO(info.st_mode) ? "pipe" : "special file");
}

AppendedFile::~AppendedFile() {
  ::close(fd_);
}

std::string AppendedFile::read() const {
  constexpr std::size_t kPiece = 1 << 16;
  std::string text;
  for (std::size_t used = 0;;) {
    text.resize(used + kPiece);
    const ssize_t got = ::pread(fd_, text.data() + used, kPiece, static_cast<off_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read");
    used += static_cast<std::size_t>(got);
    if (got > 0) continue;
    text.resize(used);
    return text;
  }
}

void AppendedFile::shorten(std::uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("shorten");
}

void AppendedFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write");
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void AppendedFile::sync() {
  if (::fsync(fd_) != 0 && errno != EINVAL) fail("sync");  // EINVAL: the file system cannot
}

void AppendedFile::fail(const char* action) const {
  const int reason = errno;
  throw Error(ErrorCode::kRuntime, "cannot {} {}: {}", action, path_.string(), std::strerror(reason))
      .about({.file = path_.string(), .system_error = reason});
}

}  // namespace trireme
