// One run at a time writes an output folder.
#pragma once

#include <filesystem>

namespace trireme {

/// Holds `folder`/.lock locked (flock) while it lives; the system lets go of it when the process ends,
/// however it ends. The file stays, and says which process wrote last.
class FolderLock {
 public:
  /// Throws Error(kInvalidInput) naming the process that holds the folder. A file system that knows no locks
  /// gives a warning and no lock.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace trireme
