#include "runtime/base/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/regular_file.h"

namespace trireme {

MappedFile::MappedFile(const std::filesystem::path& path, const char* what) : path_(path) {
  const RegularFile file(path, what);
  size_ = file.size();
  if (size_ == 0) return;  // mmap rejects an empty range
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
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
