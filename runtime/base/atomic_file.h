// A file that appears whole or not at all: written under a temporary name beside its place, synced, renamed.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "runtime/base/file_writer.h"

namespace trireme {

class AtomicFile {
 public:
  /// Opens the temporary ".<name>.tmp-<thread>" in the same folder. Throws Error(kInvalidInput) when the
  /// folder is missing or not writable, or when something that is not a regular file has the name;
  /// Error(kRuntime) when the disk is full or fails.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the temporary unless commit() succeeded.
  ~AtomicFile();

  const std::filesystem::path& path() const { return path_; }
  FileWriter& writer() { return *writer_; }

  /// Syncs, renames to path() over what may be there, syncs the folder. Throws Error(kRuntime); then the
  /// earlier file, if any, is still in place.
  void commit();

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileWriter> writer_;
  bool committed_ = false;
};

/// Writes a whole file or none. Throws as AtomicFile does.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace trireme
