// Writes a safetensors file as a stream: declare all tensors, append their data in that order, commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/safetensors_header.h"

namespace trireme {

/// A written file, as listed in a manifest.
struct CheckpointFile {
  std::string name;  // relative to the checkpoint's folder
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;                         // ByteHash of the content
  std::map<std::string, std::uint64_t> tensors = {};  // per tensor, for safetensors files
  bool operator==(const CheckpointFile&) const = default;
};

/// Data starts at a multiple of 8 bytes, so in a file that holds floats only each float is aligned.
class SafetensorsWriter {
 public:
  /// Throws Error(kInvalidInput) when a name is used twice or is not UTF-8, a dtype is unknown, or the file
  /// cannot be created.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<SafetensorsEntry>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

  /// Appends bytes of the tensors' data, in pieces of any size. Throws Error(kInvalidInput) for more bytes
  /// than declared, Error(kRuntime) for disk failures.
  void append(std::span<const std::byte> bytes);
  void append(std::span<const float> values) { append(std::as_bytes(values)); }

  /// Syncs the file and renames it to its final name. Throws Error(kInvalidInput) when data is missing.
  CheckpointFile commit();

 private:
  void write(std::span<const std::byte> bytes);
  void note_tensors(std::span<const std::byte> bytes);

  AtomicFile file_;
  ByteHash hash_;
  std::uint64_t declared_bytes_ = 0, appended_bytes_ = 0;
  struct Declared {
    std::string name;
    std::uint64_t bytes = 0;
  };
  std::vector<Declared> declared_;  // in the order of declaration
  std::size_t next_ = 0;            // index of the tensor that receives the next bytes
  std::uint64_t next_bytes_ = 0;    // its bytes so far
  ByteHash next_hash_;
  std::map<std::string, std::uint64_t> tensors_;  // of complete tensors
};

}  // namespace trireme
