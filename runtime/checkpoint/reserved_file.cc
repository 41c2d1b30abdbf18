#include "runtime/checkpoint/reserved_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, std::uint64_t bytes,
                       int number) {
  throw Error(ErrorCode::kRuntime, "cannot {} {} of {} bytes: {}", action, path.string(), bytes,
              std::strerror(number))
      .about({.file = path.string(), .system_error = number});
}

// On file systems without preallocation, glibc writes to every page.
int reserve(int fd, std::uint64_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  return error;
}

}  // namespace

ReservedFile::ReservedFile(std::filesystem::path path, std::uint64_t size_bytes)
    : path_(std::move(path)), size_(static_cast<std::size_t>(size_bytes)) {
  TRIREME_CHECK(size_bytes > 0, "{}: a file without bytes", path_.string());
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) fail("make", path_, size_bytes, errno);
  const auto give_up = [&](const char* action, int number) {
    ::close(fd);
    ::unlink(path_.c_str());
    fail(action, path_, size_bytes, number);
  };
  if (const int error = reserve(fd, size_bytes); error != 0) give_up("reserve", error);
  void* data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) give_up("map", errno);
  ::close(fd);
  data_ = static_cast<std::byte*>(data);
}

ReservedFile::~ReservedFile() {
  ::munmap(data_, size_);
}

}  // namespace trireme
