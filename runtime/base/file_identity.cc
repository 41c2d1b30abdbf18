#include "runtime/base/file_identity.h"

#include <fmt/core.h>

#include <cerrno>

namespace trireme {

FileIdentity FileIdentity::of(const struct stat& info) {
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .bytes = info.st_size,
          .modified_ns = info.st_mtim.tv_sec * kNsPerS + info.st_mtim.tv_nsec};
}

std::optional<FileIdentity> FileIdentity::of(const std::filesystem::path& path,
                                             const std::optional<FileIdentity>& before) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return of(info);
  const bool is_gone = errno == ENOENT || errno == ENOTDIR;
  return is_gone ? std::nullopt : before;
}

std::string describe_change(const FileIdentity& before, const std::optional<FileIdentity>& now) {
  if (!now) return "was removed or renamed";
  if (!before.is_same_file(*now)) return "was replaced by another file";
  if (before.bytes != now->bytes) {
    return fmt::format("has {} bytes now, {} before", now->bytes, before.bytes);
  }
  return before.modified_ns != now->modified_ns ? "was written to" : "";
}

}  // namespace trireme
