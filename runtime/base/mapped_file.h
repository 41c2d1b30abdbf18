// A file mapped as read-only memory, shared with all processes that map it. Move-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace trireme {

class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the whole file. `what` names its role in messages ("token file"). The file must not shrink while
  /// mapped (replace files by renaming, as AtomicFile does). Throws Error(kInvalidInput) when the file is
  /// missing, cannot be read or is not a regular file.
  MappedFile(const std::filesystem::path& path, const char* what);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  void unmap() noexcept;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trireme
