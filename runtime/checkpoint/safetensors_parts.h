// A safetensors file that several processes write in parallel, each its own elements. One process creates the
// file, then each opens it and writes in any order. The result has the same bytes as with SafetensorsWriter.
//
// The process that lists the file in a manifest reads it again, because no process saw all of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/checkpoint/safetensors_layout.h"
#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {

/// Creates a file with its header and space for its data. Throws Error(kInvalidInput) if it cannot be
/// created, Error(kRuntime) for disk failures.
void make_safetensors(const std::filesystem::path& path, const SafetensorsLayout& layout);

class SafetensorsPart {
 public:
  /// Opens the file made by make_safetensors() with the same layout, which must outlive this object. Throws
  /// Error(kRuntime).
  SafetensorsPart(const std::filesystem::path& path, const SafetensorsLayout& layout);
  SafetensorsPart(const SafetensorsPart&) = delete;
  SafetensorsPart& operator=(const SafetensorsPart&) = delete;
  ~SafetensorsPart();

  /// Writes elements of an fp32 tensor, starting at `first`. Throws Error(kRuntime) for disk failures.
  void write(std::size_t tensor, std::int64_t first, std::span<const float> values);
  /// Waits until all written data is on the device. Throws Error(kRuntime).
  void sync();

 private:
  const std::filesystem::path path_;
  const SafetensorsLayout& layout_;
  int fd_ = -1;
};

/// The same description as from SafetensorsWriter::commit(), computed by reading the existing file.
CheckpointFile describe_safetensors(const std::filesystem::path& path);

}  // namespace trireme
