// A safetensors file that several processes write in parallel. One process creates the file. Then each
// process opens it and writes its own elements, in any order. The result has the same bytes as with
// SafetensorsWriter.
//
// No process sees all bytes, so the checksums are computed from the written file: each process reads a share
// of its blocks, and the hashes of all shares are added.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors_layout.h"
#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {

/// Creates a file with its header and space for its data. Throws Error(kInvalidInput) if it cannot be
/// created, Error(kRuntime) for disk failures.
void make_safetensors(const std::filesystem::path& path, const SafetensorsLayout& layout);

/// An existing file of sufficient size, into which this process writes some of the bytes.
class FilePart {
 public:
  /// Throws Error(kRuntime), as do the others.
  explicit FilePart(std::filesystem::path path);
  FilePart(const FilePart&) = delete;
  FilePart& operator=(const FilePart&) = delete;
  ~FilePart();

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Waits until all written bytes are on the device.
  void sync();

 private:
  const std::filesystem::path path_;
  int fd_ = -1;
};

/// One of `count` equal shares of a file's blocks.
struct FileShare {
  int index = 0, count = 1;
};

/// Hashes of a share: one of the whole file, then one for each tensor. Throws Error(kRuntime) if the file has
/// another size.
std::vector<std::uint64_t> hash_share(const std::filesystem::path& path, const SafetensorsLayout& layout,
                                      FileShare share);

/// The same description as from SafetensorsWriter::commit(), of a file with the name `name`. `hashes`: the
/// sum of all shares' hashes.
CheckpointFile describe_safetensors(const std::string& name, const SafetensorsLayout& layout,
                                    const std::vector<SafetensorsEntry>& tensors,
                                    std::span<const std::uint64_t> hashes);

}  // namespace trireme
