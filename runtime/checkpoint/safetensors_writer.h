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

/// A file that was written, as a manifest lists it.
struct CheckpointFile {
  std::string name;  // within the checkpoint's folder
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;                         // ByteHash of the content
  std::map<std::string, std::uint64_t> tensors = {};  // the checksum of each, of a safetensors file
  bool operator==(const CheckpointFile&) const = default;
};

/// The data is aligned to 8 bytes in the file, and so is each float of a file that holds floats only.
class SafetensorsWriter {
 public:
  /// Throws Error(kInvalidInput) when a name is used twice or is not UTF-8, a dtype is unknown, or the file
  /// cannot be made.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<SafetensorsEntry>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

  /// The next bytes of the tensors' data, in pieces of any size. Throws Error(kInvalidInput) when they are
  /// more than was declared, Error(kRuntime) when the disk refuses.
  void append(std::span<const std::byte> bytes);
  void append(std::span<const float> values) { append(std::as_bytes(values)); }

  /// Makes the file appear under its name, whole and synced. Throws Error(kInvalidInput) when data is
  /// missing.
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
  std::vector<Declared> declared_;  // in their order
  std::size_t next_ = 0;            // of declared_, whose data is to come
  std::uint64_t next_bytes_ = 0;    // of it so far
  ByteHash next_hash_;
  std::map<std::string, std::uint64_t> tensors_;  // whose data is complete
};

}  // namespace trireme
