// A small file system, which a test fills up.
#pragma once

#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace trireme::testing {

/// Visible only to this process, from the first instance on, and removed with it. Needs permission to mount.
class SmallDisk {
 public:
  explicit SmallDisk(int num_bytes) {
    mounted_ =
        ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, fmt::format("size={}", num_bytes).c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }

  bool mounted() const { return mounted_; }
  const std::filesystem::path& path() const { return folder_.path(); }

  /// Fills the remaining space.
  void fill() const {
    std::ofstream file(filler(), std::ios::binary);
    const std::string page(4096, 'x');
    while (file.write(page.data(), static_cast<std::streamsize>(page.size())) && file.flush()) {
    }
  }
  void make_room() const { std::filesystem::remove(filler()); }

 private:
  std::filesystem::path filler() const { return path() / "filler"; }

  const TemporaryFolder folder_;
  bool mounted_ = false;
};

}  // namespace trireme::testing
