// The tensors of one safetensors file under their names in it, in fp32.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "runtime/checkpoint/new_head.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

class SafetensorsSource final : public TensorSource {
 public:
  /// Where the file has another head than `new_head`, it is passed over. Throws what SafetensorsReader does.
  explicit SafetensorsSource(const std::filesystem::path& file, NewHead new_head = {})
      : file_(file), new_head_(std::move(new_head)) {}

  const SafetensorsReader& file() const { return file_; }
  std::string place() const override { return file_.path().string(); }
  /// PyTorch's counts of batches may be there, too.
  void check(std::span<const SafetensorsEntry> wanted) const override;
  bool is_new(const std::string& name) const override {
    return new_head_.has(name) && (new_head_.when == NewHead::When::kAlways || !file_.has(name));
  }
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override {
    file_.copy_floats(name, first, out);
  }

 private:
  SafetensorsReader file_;
  NewHead new_head_;
};

}  // namespace trireme
