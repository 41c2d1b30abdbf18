// A new file with preallocated space, mapped as writable memory. After construction no write to it fails for
// lack of space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace trireme {

class ReservedFile {
 public:
  /// Throws Error(kRuntime) with the file and the system's reason: no space, no permission, or the file
  /// exists.
  ReservedFile(std::filesystem::path path, std::uint64_t size_bytes);
  ReservedFile(const ReservedFile&) = delete;
  ReservedFile& operator=(const ReservedFile&) = delete;
  /// Unmaps; the file stays.
  ~ReservedFile();

  const std::filesystem::path& path() const { return path_; }
  /// Page-aligned; unwritten bytes are zero.
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trireme
