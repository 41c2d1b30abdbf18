// Where a host keeps shards of a run's checkpoints in its memory: a folder of the host and of the output
// folder.
//
//     <root>/<host>/<hash of the output folder's path>/step-000010.3-of-8.<save>.shard
//
// Names that begin with a dot are of files that are not whole. No other user can read, change or replace the
// folder ([Note: private folders] in runtime/base/private_folder.h). Only shards and unfinished files are
// ever removed from it, and nothing below a folder in it but the files of a restored checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/checkpoint/shard_file.h"

namespace trireme {

/// Another one at each call, on whatever host.
std::string unique_mark();
/// 16 hexadecimal digits.
std::string hash_of_text(const std::string& text);

class PartnerFolder {
 public:
  /// The folder on this host. `root`: checkpoint.partner_folder, where "{uid}" stands for the number of this
  /// user. `out`: the output folder of the run.
  PartnerFolder(std::filesystem::path root, const std::filesystem::path& out);

  const std::filesystem::path& path() const { return path_; }
  /// Makes it, private, and proves that it can be written. Throws Error(kInvalidInput) naming the key.
  void prepare() const;

  std::filesystem::path file_of(const ShardHeader& header) const;
  /// The same until it is whole; of another rank of the host another name.
  std::filesystem::path unfinished_file_of(const ShardHeader& header) const;

  struct Shard {
    std::filesystem::path path;
    ShardHeader header;
    std::uint64_t bytes = 0;
  };
  /// Lists the whole shards by their headers. A damaged shard, or a folder that is not private, is passed
  /// over with a warning.
  std::vector<Shard> list() const;

  // One rank of the host, while no other writes. What cannot be removed is a warning.
  /// Removes what is not whole.
  void clear_unfinished() const;
  /// Removes the shards of a run.
  void remove_those_of(const std::string& run) const;
  /// Removes the shards of other saves and what is not whole.
  void keep_only(const std::string& save) const;
  /// Removes all shards and the folder.
  void remove() const;

  /// "12.0 GiB are free there" and what other runs keep there; for messages.
  std::string describe_room() const;

 private:
  std::string key_;  // checkpoint.partner_folder, for messages
  std::filesystem::path path_;
};

}  // namespace trireme
