#include "runtime/base/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // Linux follows as many
constexpr mode_t kOthers = S_IRWXG | S_IRWXO, kOthersWrite = S_IWGRP | S_IWOTH;

struct stat status_of(const fs::path& path) {
  struct stat status = {};
  TRIREME_CHECK(::lstat(path.c_str(), &status) == 0, "cannot look at {}: {}", path.string(),
                std::strerror(errno));
  return status;
}

void check_owner(const fs::path& path, const struct stat& status) {
  TRIREME_CHECK(status.st_uid == 0 || status.st_uid == ::geteuid(),
                "{} belongs to another user (number {}), who could exchange what lies below it",
                path.string(), status.st_uid);
}

void check_ancestor(const fs::path& path, const struct stat& status) {
  check_owner(path, status);
  TRIREME_CHECK((status.st_mode & kOthersWrite) == 0 || (status.st_mode & S_ISVTX) != 0,
                "other users can write into {} (mode {:o}) and exchange what lies below it: chmod go-w, or "
                "chmod +t",
                path.string(), status.st_mode & 07777U);
}

/// Checks every component of `path` but the last. Links are followed component by component.
void check_ancestors(const fs::path& path, int num_links = 0) {
  fs::path walked;
  const fs::path parent = path.parent_path();
  for (auto component = parent.begin(); component != parent.end(); ++component) {
    const fs::path next = walked / *component;
    const struct stat status = status_of(next);
    if (!S_ISLNK(status.st_mode)) {
      check_ancestor(next, status);
      walked = next;
      continue;
    }
    check_owner(next, status);
    TRIREME_CHECK(num_links < kMaxLinks, "{} leads through more than {} links", path.string(), kMaxLinks);
    fs::path target = (walked / fs::read_symlink(next)).lexically_normal();
    for (auto rest = std::next(component); rest != parent.end(); ++rest) target /= *rest;
    check_ancestors(target / path.filename(), num_links + 1);
    return;
  }
}

/// `path` itself, below ancestors that were checked.
void check_own(const fs::path& path, const struct stat& status) {
  TRIREME_CHECK(S_ISDIR(status.st_mode), "{} is not a folder", path.string());
  TRIREME_CHECK(status.st_uid == ::geteuid(), "{} belongs to another user (number {})", path.string(),
                status.st_uid);
}

void make_folder(const fs::path& path) {
  TRIREME_CHECK(::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST, "cannot make folder {}: {}",
                path.string(), std::strerror(errno));
}

}  // namespace

void make_private_folder(const fs::path& path) {
  fs::path walked;
  for (const fs::path& component : path.lexically_normal()) {
    walked /= component;
    std::error_code error;
    if (!fs::exists(walked, error)) make_folder(walked);
  }
  check_ancestors(path);
  const struct stat status = status_of(path);
  check_own(path, status);
  TRIREME_CHECK((status.st_mode & kOthers) == 0 || ::chmod(path.c_str(), S_IRWXU) == 0,
                "other users can read {}, and chmod go= fails: {}", path.string(), std::strerror(errno));
}

void check_private_folder(const fs::path& path) {
  check_ancestors(path);
  const struct stat status = status_of(path);
  check_own(path, status);
  TRIREME_CHECK((status.st_mode & kOthers) == 0,
                "other users can use {} (mode {:o}): chmod go=", path.string(), status.st_mode & 07777U);
}

}  // namespace trireme
