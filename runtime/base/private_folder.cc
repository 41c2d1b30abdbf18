#include "runtime/base/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

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

/// The number that owners have who are unknown in this process's user namespace; none outside of one.
std::optional<uid_t> read_unmapped_owner() {
  constexpr std::int64_t kAllUsers = 4294967295;
  std::int64_t inside = 0, outside = 0, count = 0, unmapped = 0;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
  if (count == 0 || count == kAllUsers) return std::nullopt;
  std::ifstream file("/proc/sys/kernel/overflowuid");
  return file >> unmapped ? std::optional(static_cast<uid_t>(unmapped)) : std::nullopt;
}

fs::path folder_around(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// True if root owns `path`. A user namespace, as of a container that was started without root, may not know
/// root: then its owner has the number of all unknown ones. Such an owner counts as root in a folder where
/// only its own owner can put things, and as another user in others, such as /tmp.
bool is_of_root(const fs::path& path, const struct stat& status) {
  if (status.st_uid == 0) return true;
  const auto unmapped = read_unmapped_owner();
  if (status.st_uid != unmapped) return false;
  struct stat around = {};
  return ::stat(folder_around(path).c_str(), &around) == 0 && (around.st_mode & kOthersWrite) == 0;
}

void check_owner(const fs::path& path, const struct stat& status) {
  TRIREME_CHECK(status.st_uid == ::geteuid() || is_of_root(path, status),
                "{} belongs to another user (number {}), who could exchange what lies below it",
                path.string(), status.st_uid);
}

void check_ancestor(const fs::path& path, const struct stat& status) {
  check_owner(path, status);
  TRIREME_CHECK(S_ISDIR(status.st_mode), "{} is not a folder", path.string());
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

bool is_writable_by_all(const fs::path& folder) {
  struct stat status = {};
  return ::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0;
}

bool is_sticky(const fs::path& folder) {
  struct stat status = {};
  return ::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_ISVTX) != 0;
}

/// The owner of a file that this process makes in `folder`: on NFS and CIFS not always its user.
uid_t owner_of_new_file(const fs::path& folder) {
  struct stat status = {};
  std::string name = (folder / ".trireme-owner-XXXXXX").string();
  const int fd = ::mkstemp(name.data());
  if (fd < 0) return ::geteuid();
  const bool known = ::fstat(fd, &status) == 0;
  ::close(fd);
  ::unlink(name.c_str());
  return known ? status.st_uid : ::geteuid();
}

/// The entries of a folder that something is written into.
class FolderEntries {
 public:
  explicit FolderEntries(const fs::path& folder)
      : folder_(folder), is_open_(is_writable_by_all(folder)), new_owner_(std::nullopt) {}

  /// Other than links, only entries are checked that every user could put there.
  void check(const fs::path& entry, bool is_on_the_way) {
    struct stat status = {};
    if (::lstat(entry.c_str(), &status) != 0) return;
    if (!S_ISLNK(status.st_mode) && (is_on_the_way || !is_open_)) return;
    TRIREME_CHECK(
        status.st_uid == ::geteuid() || is_of_root(entry, status) || status.st_uid == new_owner(),
        "{} belongs to another user (number {}), who can lead what is written there to other files: remove "
        "it if you trust its owner, or choose another place",
        entry.string(), status.st_uid);
  }

 private:
  uid_t new_owner() {
    if (!new_owner_) new_owner_ = owner_of_new_file(folder_);
    return *new_owner_;
  }

  fs::path folder_;
  bool is_open_;                    // every user can write
  std::optional<uid_t> new_owner_;  // of a file that this process makes, once it is asked for
};

}  // namespace

void make_private_folder(const fs::path& path) {
  fs::path walked;
  for (const fs::path& component : path.lexically_normal()) {
    walked /= component;
    struct stat status = {};
    if (::lstat(walked.c_str(), &status) == 0) continue;
    check_ancestors(walked);  // first: nothing is made in a folder that is not safe
    make_folder(walked);
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

void remove_private_folder(const std::filesystem::path& path) noexcept {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return;
  try {
    check_private_folder(path);
    std::filesystem::remove_all(path, error);
  } catch (const std::exception&) {  // not ours
  }
}

void check_way_to_write(const fs::path& file) {
  fs::path walked;
  for (const fs::path& component : file.parent_path()) {
    walked /= component;
    FolderEntries(folder_around(walked)).check(walked, /*is_on_the_way=*/true);
  }
}

void check_folder_to_write(const fs::path& path) {
  const fs::path normal = path.has_filename() ? path : path.parent_path();  // "out/" is "out"
  check_way_to_write(normal);
  FolderEntries(folder_around(normal)).check(normal, /*is_on_the_way=*/false);
  FolderEntries entries(normal);
  std::error_code error;
  for (fs::directory_iterator entry(normal, error), end; !error && entry != end; entry.increment(error))
    entries.check(entry->path(), /*is_on_the_way=*/false);
}

bool all_can_exchange(const fs::path& path) {
  const fs::path normal = path.has_filename() ? path : path.parent_path(), parent = folder_around(normal);
  return is_writable_by_all(normal) || (is_writable_by_all(parent) && !is_sticky(parent));
}

}  // namespace trireme
