// A new file with its room reserved, seen as memory that can be written: once it is made, no write to it
// fails for want of space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace trireme {

class ReservedFile {
 public:
  /// Throws Error(kRuntime) naming the file and the system's reason: no room, no right, or it is there
  /// already.
  ReservedFile(std::filesystem::path path, std::uint64_t size_bytes);
  ReservedFile(const ReservedFile&) = delete;
  ReservedFile& operator=(const ReservedFile&) = delete;
  /// The file stays.
  ~ReservedFile();

  const std::filesystem::path& path() const { return path_; }
  /// Aligned to pages; zeros where nothing was written.
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trireme
