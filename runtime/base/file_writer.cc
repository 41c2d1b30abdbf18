#include "runtime/base/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>

#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

void sync_path(const std::filesystem::path& path, const char* what, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  const auto fail = [&](const char* action, int error_number) {
    throw Error(ErrorCode::kRuntime, "cannot {} {} {}: {}", action, what, path.string(),
                std::strerror(error_number))
        .about({.file = path.string(), .system_error = error_number});
  };
  if (fd < 0) fail("open", errno);
  const int result = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  // EINVAL: the file system does not support sync here.
  if (result != 0 && error_number != EINVAL) fail("sync", error_number);
}

}  // namespace

FileWriter::FileWriter(const std::filesystem::path& path, Mode mode) : path_(path) {
  const int flags = mode == Mode::kCreateNew ? O_CREAT | O_EXCL : O_CREAT | O_TRUNC;
  fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (fd_ < 0) {
    const int reason = errno;
    throw Error(code_of_file_failure(reason), "cannot create {}: {}", path.string(), std::strerror(reason))
        .about({.file = path.string(), .system_error = reason});
  }
  buffer_.reserve(kBufferBytes);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    write_at(written_, bytes);
    written_ += bytes.size();
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void FileWriter::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  assert(offset + bytes.size() <= size_bytes());
  flush();
  write_at(offset, bytes);
}

void FileWriter::truncate(std::uint64_t size_bytes) {
  flush();
  assert(size_bytes <= written_);
  if (::ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0) fail("shorten", errno);
  written_ = size_bytes;
}

void FileWriter::flush() {
  write_at(written_, buffer_);
  written_ += buffer_.size();
  buffer_.clear();
}

void FileWriter::sync() {
  flush();
  // EINVAL: devices and pipes do not support sync.
  if (::fsync(fd_) != 0 && errno != EINVAL) fail("sync", errno);
}

void FileWriter::close() {
  flush();
  // Network file systems report a full disk only here.
  const int result = ::close(fd_);
  const int error_number = errno;
  fd_ = -1;
  if (result != 0) fail("close", error_number);
}

void FileWriter::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", errno);
    }
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void FileWriter::fail(const char* action, int error_number) const {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  throw Error(ErrorCode::kRuntime, "cannot {} {} after {} bytes: {}{}", action, path_.string(), written_,
              std::strerror(error_number), full ? "; free space there or write to another disk" : "")
      .about({.file = path_.string(), .system_error = error_number});
}

void sync_file(const std::filesystem::path& path) {
  sync_path(path, "file", O_RDONLY);
}

void sync_folder(const std::filesystem::path& folder) {
  sync_path(folder.empty() ? "." : folder, "folder", O_RDONLY | O_DIRECTORY);
}

}  // namespace trireme
