// Atomic file creation: writes to a temporary file in the same folder, syncs, then renames it.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "runtime/base/file_writer.h"

namespace trireme {

class AtomicFile {
 public:
  /// Opens the temporary ".<name>.tmp-<thread>" in the same folder. Throws Error(kInvalidInput) when the
  /// folder is missing or not writable, or when `path` exists and is not a regular file. Throws
  /// Error(kRuntime) when the disk is full or fails.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the temporary unless commit() succeeded.
  ~AtomicFile();

  const std::filesystem::path& path() const { return path_; }
  FileWriter& writer() { return *writer_; }

  /// Syncs, renames to path(), replacing an existing file, and syncs the folder. Throws Error(kRuntime) and
  /// then leaves the earlier file, if any, in place.
  void commit();

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileWriter> writer_;
  bool committed_ = false;
};

/// Writes a whole file or none. Throws as AtomicFile does.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace trireme
