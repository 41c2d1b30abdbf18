// One rank's part of a checkpoint in a separate file: a list of pieces, each with its position in the files
// of the checkpoint. Together, the shards of all ranks contain the whole checkpoint. It can be assembled
// without knowing the layout that wrote it.
//
// [Note: shard files] A shard file begins with "TRSHARD1" and four 64-bit numbers: the length of the header,
// its hash, the number of pieces, and the hash of everything after the header. Then come the header in JSON,
// a table with three numbers per piece (file, offset, bytes), and the bytes of the pieces. "TRSHARD1" and
// the four numbers are written last, so an unfinished file begins with zeros.
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

/// The metadata of a shard.
struct ShardHeader {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
  };

  std::string run;   // identifies the run
  std::string save;  // identifies this save; shards of different saves cannot be combined
  std::int64_t step = 0;
  int rank = 0, num_ranks = 1;
  std::vector<File> files;  // of the checkpoint; ranks other than 0 may lack the last ones
  nlohmann::json content;   // content of the manifest; rank 0 only
};

/// The position of bytes in the checkpoint.
struct ShardPlace {
  std::uint64_t file = 0;    // index in ShardHeader::files
  std::uint64_t offset = 0;  // in that file
  std::uint64_t bytes = 0;
};

struct ShardPiece {
  ShardPlace place;
  const std::byte* data = nullptr;
};

/// A shard to be written.
class ShardWriter {
 public:
  /// The pieces' bytes must outlive this object.
  ShardWriter(const ShardHeader& header, std::vector<ShardPiece> pieces);
  /// Size of the whole file.
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// Writes to `file`, which has size_bytes().
  void write(const ReservedFile& file) const;

 private:
  std::string header_;
  std::vector<ShardPiece> pieces_;
  std::uint64_t size_bytes_ = 0;
};

/// An existing shard.
class ShardReader {
 public:
  /// `size_bytes`: size of the shard, if the file may be longer; default: the size of the file. Throws
  /// Error(kInvalidInput) naming the file if it is incomplete or its header damaged.
  explicit ShardReader(const std::filesystem::path& path, std::optional<std::uint64_t> size_bytes = {});

  const ShardHeader& header() const { return header_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// Reads the whole file. Throws Error(kInvalidInput) naming the file if a bit changed or a piece has an
  /// invalid position. Call before pieces().
  void verify() const;
  std::vector<ShardPiece> pieces() const;

 private:
  MappedFile file_;
  ShardHeader header_;
  std::span<const std::byte> body_;  // table and data
  std::uint64_t size_bytes_ = 0, num_pieces_ = 0, hash_ = 0;
};

}  // namespace trireme
