// A safetensors file that several processes write together, each its own elements: one makes the file, then
// each opens it and writes, in any order. It has the bytes of what SafetensorsWriter would have written.
//
// Whoever lists the file in a manifest reads it again: no process saw all of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/checkpoint/safetensors_layout.h"
#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {

/// Makes a file with its header and room for its data. Throws Error(kInvalidInput) where it cannot be made,
/// Error(kRuntime) when the disk refuses.
void make_safetensors(const std::filesystem::path& path, const SafetensorsLayout& layout);

class SafetensorsPart {
 public:
  /// Opens what make_safetensors() made from the same layout, which outlives this. Throws Error(kRuntime).
  SafetensorsPart(const std::filesystem::path& path, const SafetensorsLayout& layout);
  SafetensorsPart(const SafetensorsPart&) = delete;
  SafetensorsPart& operator=(const SafetensorsPart&) = delete;
  ~SafetensorsPart();

  /// Elements of an fp32 tensor from `first` on. Throws Error(kRuntime) when the disk refuses.
  void write(std::size_t tensor, std::int64_t first, std::span<const float> values);
  /// Waits until what was written is on the device. Throws Error(kRuntime).
  void sync();

 private:
  const std::filesystem::path path_;
  const SafetensorsLayout& layout_;
  int fd_ = -1;
};

/// As SafetensorsWriter::commit() describes it: of the file that is there, read whole.
CheckpointFile describe_safetensors(const std::filesystem::path& path);

}  // namespace trireme
