// A memory-mapped safetensors file. The file is checked completely when opened, so that a corrupt file gives
// a clear error and never a wrong number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/safetensors_header.h"

namespace trireme {

struct SafetensorsTensor : SafetensorsEntry {
  std::span<const std::byte> data;  // in the mapped file; any alignment
  std::uint64_t num_elems = 0;
};

class SafetensorsReader {
 public:
  /// Throws Error(kInvalidInput) with the file and the defect: a size or offset outside the file; data that
  /// overlaps, leaves a gap or does not match dtype and shape; an invalid header.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// Sorted by the position of their data.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  bool has(const std::string& name) const { return index_.contains(name); }
  /// Throws Error(kInvalidInput) if there is no tensor `name`.
  const SafetensorsTensor& tensor(const std::string& name) const;
  /// Copies elements [first, first + out.size()) of a flat F32 tensor. Throws Error(kInvalidInput) when the
  /// tensor is missing, too short or of another dtype.
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const;

 private:
  MappedFile file_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::size_t> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trireme
