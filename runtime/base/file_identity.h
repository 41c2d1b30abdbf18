// The identity and state of a named file: tells a file that was replaced or written from the one
// before.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme {

struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970, as the file system keeps it

  /// Of what `path` names, through symbolic links; empty where there is nothing. Another failure of the
  /// system gives `before`: a network that is down for a moment is no other file.
  static std::optional<FileIdentity> of(const std::filesystem::path& path,
                                        const std::optional<FileIdentity>& before = std::nullopt);
  static FileIdentity of(const struct stat& info);

  bool is_same_file(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
  bool operator==(const FileIdentity&) const = default;
};

/// The difference as the end of a sentence: "was replaced by another file". Empty without one.
std::string describe_change(const FileIdentity& before, const std::optional<FileIdentity>& now);

}  // namespace trireme
