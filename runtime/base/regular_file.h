// A regular file opened for reading: the first step of every reader of input.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme {

/// Owns a descriptor. Opening never blocks: a pipe without a writer is rejected like any other special file.
class RegularFile {
 public:
  /// `what` names its role in messages ("token file"). Throws Error(kInvalidInput) when the file is missing,
  /// cannot be read or is not a regular file.
  RegularFile(const std::filesystem::path& path, const char* what);
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  int descriptor() const { return fd_; }
  /// Size in bytes when opened.
  std::size_t size() const { return size_; }

 private:
  int fd_ = -1;
  std::size_t size_ = 0;
};

/// "data/a.bin does not exist (working directory: /jobs)". Without the directory for an absolute path.
std::string describe_missing(const std::filesystem::path& path);

/// A file to read into memory as a whole.
struct TextFile {
  std::filesystem::path path;
  const char* what = "file";  // its role in messages: "job file"
  std::size_t max_bytes = 0;  // larger files are rejected
};

/// Throws Error(kInvalidInput) like RegularFile, and when the file has more than `max_bytes`; reading stops
/// there.
std::string read_text_file(const TextFile& file);

}  // namespace trireme
