// A file of a job's folder that lines are appended to, and that a resumed job shortens first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

/// Throws Error(kInvalidInput) where `path` is a link: what a job appends to or shortens is a file of its own
/// folder.
void check_is_no_link(const std::filesystem::path& path);

class AppendedFile {
 public:
  /// Opens the file, or makes it. Throws Error(kInvalidInput) for a link, a pipe or another special file, and
  /// when it cannot be written; Error(kRuntime) when the disk is full or fails.
  explicit AppendedFile(const std::filesystem::path& path);
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  ~AppendedFile();

  std::string read() const;
  // These throw Error(kRuntime).
  void shorten(std::uint64_t bytes);
  /// Hands `text` to the system.
  void append(std::string_view text);
  /// Waits until it survives a power failure.
  void sync();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace trireme
