// A memory-mapped safetensors file. Everything is checked when it is opened, so that a corrupt file is one
// clear error and never a wrong number.
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
  /// Throws Error(kInvalidInput) naming the file and what is wrong: a size or offset that leads outside, data
  /// that overlaps, leaves a gap or does not match dtype and shape, a header that is not what the format
  /// says.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In order of their data.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  bool has(const std::string& name) const { return index_.contains(name); }
  /// Throws Error(kInvalidInput) when there is no such tensor.
  const SafetensorsTensor& tensor(const std::string& name) const;
  /// Copies elements [first, first + out.size()) of a flat F32 tensor. Throws Error(kInvalidInput) when the
  /// tensor is missing, of another dtype or shorter.
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const;

 private:
  MappedFile file_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::size_t> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trireme
