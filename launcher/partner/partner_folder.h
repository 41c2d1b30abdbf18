// The folder in a host's memory that holds shards of a run's checkpoints, one for each host and output
// folder:
//
//     <root>/<host>/<hash of the output folder's path>/step-000010.3-of-8.<save>.shard
//
// Names that begin with a dot belong to incomplete files. No other user can read, change or replace the
// folder
// ([Note: private folders] in runtime/base/private_folder.h). Only shards and unfinished files are removed
// from it. In its subfolders only the files of a restored checkpoint are removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/checkpoint/shard_file.h"

namespace trireme {

/// Unique across calls and hosts.
std::string unique_mark();
/// 16 hexadecimal digits.
std::string hash_of_text(const std::string& text);

class PartnerFolder {
 public:
  /// The folder on this host. `root`: checkpoint.partner_folder, where "{uid}" is replaced by the user's id.
  /// `out`: the run's output folder.
  PartnerFolder(std::filesystem::path root, const std::filesystem::path& out);

  const std::filesystem::path& path() const { return path_; }
  /// Creates the folder, private, and tests that it is writable. Throws Error(kInvalidInput) naming the key.
  void prepare() const;

  std::filesystem::path file_of(const ShardHeader& header) const;
  /// The name while the file is incomplete; unique among the ranks of the host.
  std::filesystem::path unfinished_file_of(const ShardHeader& header) const;

  struct Shard {
    std::filesystem::path path;
    ShardHeader header;
    std::uint64_t bytes = 0;
  };
  /// Lists the complete shards by their headers. Warns about a damaged shard, or a folder that is not
  /// private, and skips it.
  std::vector<Shard> list() const;

  // Called by one rank of the host while no other writes. A failed removal is a warning.
  /// Removes incomplete files.
  void clear_unfinished() const;
  /// Removes the shards of a run.
  void remove_those_of(const std::string& run) const;
  /// Removes shards of other saves, and incomplete files.
  void keep_only(const std::string& save) const;
  /// Removes all shards and the folder.
  void remove() const;

  /// "12.0 GiB are free there" and the use by other runs; for messages.
  std::string describe_room() const;

 private:
  std::string key_;  // checkpoint.partner_folder, for messages
  std::filesystem::path path_;
};

}  // namespace trireme
