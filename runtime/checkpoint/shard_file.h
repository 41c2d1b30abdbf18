// What one rank has of a checkpoint's files, in a file of its own: pieces, each with its place in the files
// of the checkpoint. Shards of all ranks are the checkpoint; on which layout it was made does not matter to
// who brings them together.
//
// [Note: shard files] "TRSHARD1", then four numbers of 64 bits: the length of the header, its hash, the
// number of pieces, and the hash of all that follows the header. The header is JSON. Then a table of pieces,
// three numbers each (file, place in it, bytes), and their bytes one after another. The first line is written
// last: a file that its writer did not finish begins with zeros.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/reserved_file.h"

namespace trireme {

/// What a shard says of itself.
struct ShardHeader {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
  };

  std::string run;   // whose checkpoint it is
  std::string save;  // the one time that it was saved: shards of another time do not belong to it
  std::int64_t step = 0;
  int rank = 0, num_ranks = 1;
  std::vector<File> files;  // of the checkpoint; rank 0's has all of them, others the first ones
  nlohmann::json content;   // of the manifest; of rank 0 alone
};

/// Where bytes belong.
struct ShardPlace {
  std::uint64_t file = 0;    // index in ShardHeader::files
  std::uint64_t offset = 0;  // in that file
  std::uint64_t bytes = 0;
};

struct ShardPiece {
  ShardPlace place;
  const std::byte* data = nullptr;
};

/// A shard that is to be written.
class ShardWriter {
 public:
  /// The pieces' bytes outlive this.
  ShardWriter(const ShardHeader& header, std::vector<ShardPiece> pieces);
  /// Of the whole file.
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// Fills the file, which is of this size.
  void write(const ReservedFile& file) const;

 private:
  std::string header_;
  std::vector<ShardPiece> pieces_;
  std::uint64_t size_bytes_ = 0;
};

/// A shard that is there.
class ShardReader {
 public:
  /// Of the whole file, or of its first bytes. Throws Error(kInvalidInput) naming the file where it is not
  /// whole, or its header damaged.
  explicit ShardReader(const std::filesystem::path& path, std::optional<std::uint64_t> size_bytes = {});

  const ShardHeader& header() const { return header_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// Reads all of it. Throws Error(kInvalidInput) naming the file where a bit is another, or a piece belongs
  /// to no place. Before pieces() is used.
  void verify() const;
  std::vector<ShardPiece> pieces() const;

 private:
  MappedFile file_;
  ShardHeader header_;
  std::span<const std::byte> body_;  // table and data
  std::uint64_t size_bytes_ = 0, num_pieces_ = 0, hash_ = 0;
};

}  // namespace trireme
