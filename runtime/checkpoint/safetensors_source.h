// The tensors of one safetensors file under their names in it, in fp32.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

class SafetensorsSource final : public TensorSource {
 public:
  /// `new_head`, unless empty, begins the names of a head's tensors: where the file has another head, it is
  /// passed over, and ours is new. Throws what SafetensorsReader does.
  explicit SafetensorsSource(const std::filesystem::path& file, std::string new_head = {})
      : file_(file), new_head_(std::move(new_head)) {}

  const SafetensorsReader& file() const { return file_; }
  std::string place() const override { return file_.path().string(); }
  /// PyTorch's counts of batches may be there, too.
  void check(std::span<const SafetensorsEntry> wanted) const override;
  bool is_new(const std::string& name) const override { return is_of_new_head(name) && !file_.has(name); }
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override {
    file_.copy_floats(name, first, out);
  }

 private:
  bool is_of_new_head(const std::string& name) const {
    return !new_head_.empty() && name.starts_with(new_head_);
  }

  SafetensorsReader file_;
  std::string new_head_;
};

}  // namespace trireme
