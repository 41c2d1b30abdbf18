// Byte offsets of a safetensors file to be written: a function of the declared tensors only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors_header.h"

namespace trireme {

class SafetensorsLayout {
 public:
  /// `path` names the file in messages. Throws Error(kInvalidInput) when a name is used twice or is not
  /// UTF-8, or a dtype is unknown.
  SafetensorsLayout(const std::filesystem::path& path, const std::vector<SafetensorsEntry>& tensors,
                    const std::map<std::string, std::string>& metadata);

  /// All bytes before the data: the length of the header, and the header, padded with spaces so that the data
  /// begins at a multiple of 8 bytes.
  const std::string& head() const { return head_; }
  /// Offset of a tensor's data in the file, by its index in the declaration. The data ends at end().
  std::uint64_t begin(std::size_t tensor) const { return begins_.at(tensor); }
  std::uint64_t end(std::size_t tensor) const {
    return tensor + 1 < begins_.size() ? begins_[tensor + 1] : size_bytes_;
  }
  std::size_t num_tensors() const { return begins_.size(); }
  /// Size of the file.
  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  std::string head_;
  std::vector<std::uint64_t> begins_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace trireme
