// A buffered file writer. Its errors name the file, the reason and the bytes written so far.
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

  /// Throws Error(kInvalidInput) when the file cannot be created, Error(kRuntime) when the disk is full or
  /// fails.
  FileWriter(const std::filesystem::path& path, Mode mode);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  /// Closes without flushing. Call sync() or close() first to keep the file.
  ~FileWriter();

  const std::filesystem::path& path() const { return path_; }
  /// Bytes appended so far.
  std::uint64_t size_bytes() const { return written_ + buffer_.size(); }

  // All of these throw Error(kRuntime) when the system call fails, for instance because the disk is full.
  void append(std::span<const std::byte> bytes);
  /// Replaces bytes that were appended before.
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Shortens the file.
  void truncate(std::uint64_t size_bytes);
  /// Writes the buffer to the file, so that other readers of the file see all appended bytes.
  void flush();
  /// Waits until all bytes are on the device and survive a power failure.
  void sync();
  /// Flushes and closes. No other call is allowed afterwards.
  void close();

 private:
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  [[noreturn]] void fail(const char* action, int error_number) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t written_ = 0;  // bytes written from the buffer to the file
  std::vector<std::byte> buffer_;
};

/// Waits until the content of a file, whoever wrote it, is on the device. Throws Error(kRuntime).
void sync_file(const std::filesystem::path& path);

/// Waits until the directory entries of `folder` are on the device, so that a rename in it survives a power
/// failure. Throws Error(kRuntime).
void sync_folder(const std::filesystem::path& folder);

}  // namespace trireme
