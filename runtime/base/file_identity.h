// The identity and state of a named file, to detect that it was replaced or written.
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
  std::int64_t modified_ns = 0;  // since 1970, as stored by the file system

  /// Identity of the file at `path`, following symbolic links; empty if it does not exist. Other system
  /// errors return `before`: a network that is down for a moment does not change a file.
  static std::optional<FileIdentity> of(const std::filesystem::path& path,
                                        const std::optional<FileIdentity>& before = std::nullopt);
  static FileIdentity of(const struct stat& info);

  bool is_same_file(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
  bool operator==(const FileIdentity&) const = default;
};

/// The difference as the end of a sentence: "was replaced by another file". Empty if there is none.
std::string describe_change(const FileIdentity& before, const std::optional<FileIdentity>& now);

}  // namespace trireme
