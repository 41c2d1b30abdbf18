#include "runtime/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/base/error.h"

namespace trireme {
namespace {

std::string describe_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder, not a regular file";
  if (S_ISFIFO(mode)) return "it is a pipe, not a regular file";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "it is a device, not a regular file";
  return "it is not a regular file";
}

[[noreturn]] void fail_to_read(const char* what, const std::filesystem::path& path, int error_number) {
  throw Error(ErrorCode::kInvalidInput, "cannot read the {} {}: {}", what, path.string(),
              std::strerror(error_number))
      .about({.file = path.string(), .system_error = error_number});
}

}  // namespace

RegularFile::RegularFile(const std::filesystem::path& path, const char* what) {
  // O_NONBLOCK: opening a pipe without a writer must fail below, not wait.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd_ < 0) fail_to_read(what, path, errno);
  struct stat info {};
  std::string reason;
  if (::fstat(fd_, &info) != 0) {
    reason = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    reason = describe_kind(info.st_mode);
  }
  if (!reason.empty()) {
    ::close(fd_);  // no destructor runs for an object whose constructor throws
    throw Error(ErrorCode::kInvalidInput, "cannot read the {} {}: {}", what, path.string(), reason);
  }
  size_ = static_cast<std::size_t>(info.st_size);
}

RegularFile::~RegularFile() {
  ::close(fd_);
}

std::string describe_missing(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  return path.is_absolute() || error
             ? fmt::format("{} does not exist", path.string())
             : fmt::format("{} does not exist (working directory: {})", path.string(), folder.string());
}

std::string read_text_file(const TextFile& file) {
  const RegularFile opened(file.path, file.what);
  const std::string name = file.path.string();
  TRIREME_CHECK(opened.size() <= file.max_bytes, "the {} {} has {} bytes, more than the maximum of {}",
                file.what, name, opened.size(), file.max_bytes);
  // The size is a first guess: files of /proc report 0, and others may grow while being read.
  constexpr std::size_t kPiece = 1 << 16;
  std::string text;
  for (std::size_t used = 0;;) {
    text.resize(std::max(used, opened.size()) + kPiece);
    const ssize_t got = ::read(opened.descriptor(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to_read(file.what, file.path, errno);
    used += static_cast<std::size_t>(got);
    TRIREME_CHECK(used <= file.max_bytes, "the {} {} has more than the maximum of {} bytes", file.what, name,
                  file.max_bytes);
    if (got > 0) continue;
    text.resize(used);
    return text;
  }
}

}  // namespace trireme
