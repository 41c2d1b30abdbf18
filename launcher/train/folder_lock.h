// Ensures that only one run at a time writes an output folder.
#pragma once

#include <filesystem>

namespace trireme {

/// Holds a lock (flock) on `folder`/.lock during its lifetime; the kernel releases it when the process ends.
/// The file remains and names the process that wrote last.
class FolderLock {
 public:
  /// Throws Error(kInvalidInput) naming the process that holds the folder. On a file system without locks,
  /// warns and continues without one.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace trireme
