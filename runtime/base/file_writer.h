// A buffered file being written, whose every failure names the file, the reason and how far it came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace trireme {

class FileWriter {
 public:
  enum class Mode {
    kCreateNew,  // the file must not exist
    kTruncate,   // an existing file is emptied
  };

  /// Throws Error(kInvalidInput) when the file cannot be made, Error(kRuntime) when the disk is full or
  /// fails.
  FileWriter(const std::filesystem::path& path, Mode mode);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  /// Closes without flushing: a file that was not finished with sync() or close() is not worth keeping.
  ~FileWriter();

  const std::filesystem::path& path() const { return path_; }
  /// Bytes appended so far.
  std::uint64_t size_bytes() const { return written_ + buffer_.size(); }

  // All of these throw Error(kRuntime) when the system refuses, for instance because the disk is full.
  void append(std::span<const std::byte> bytes);
  /// Replaces bytes that were appended before.
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Shortens the file.
  void truncate(std::uint64_t size_bytes);
  /// Hands everything to the system, so that others who open the file see it.
  void flush();
  /// Waits until everything is on the device: it survives a power failure.
  void sync();
  /// Flushes and closes. Nothing may be called afterwards.
  void close();

 private:
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  [[noreturn]] void fail(const char* action, int error_number) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t written_ = 0;  // bytes that have left the buffer
  std::vector<std::byte> buffer_;
};

/// Waits until the content of a file that somebody else may have written is on the device. Throws
/// Error(kRuntime).
void sync_file(const std::filesystem::path& path);

/// Waits until the names in `folder` are on the device: a rename in it survives a power failure. Throws
/// Error(kRuntime).
void sync_folder(const std::filesystem::path& folder);

}  // namespace trireme
