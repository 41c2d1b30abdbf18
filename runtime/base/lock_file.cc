#include "runtime/base/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trireme {

int open_lock_file(const std::filesystem::path& path) {
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  struct stat status = {};
  const bool is_shared = ::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IWGRP) != 0;
  const mode_t mode = is_shared ? 0660 : 0600;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
  if (fd < 0) return fd;
  const bool is_own = ::fstat(fd, &status) == 0 && status.st_uid == ::geteuid() && S_ISREG(status.st_mode);
  if (is_own && (status.st_mode & 07777) != mode)  // file systems without modes keep theirs
      [[maybe_unused]]
    const int changed = ::fchmod(fd, mode);
  return fd;
}

}  // namespace trireme
