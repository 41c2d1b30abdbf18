#include "runtime/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

struct Descriptor {
  int fd;
  explicit Descriptor(int f) : fd(f) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, const char* what) : path_(path) {
  // O_NONBLOCK: opening a pipe without a writer must fail below, not wait.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  TRIREME_CHECK(file.fd >= 0, "cannot open {} {}: {}", what, path.string(), std::strerror(errno));
  struct stat info {};
  TRIREME_CHECK(::fstat(file.fd, &info) == 0, "cannot inspect {} {}: {}", what, path.string(),
                std::strerror(errno));
  TRIREME_CHECK(S_ISREG(info.st_mode), "{} {} is not a regular file", what, path.string());
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;  // mmap refuses an empty range
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd, 0);
  TRIREME_CHECK(data != MAP_FAILED, "cannot map {} {} of {} bytes: {}", what, path.string(), size_,
                std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() {
  unmap();
}

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace trireme
