// The tensors of one safetensors file under their names in it, in fp32.
#pragma once

#include <filesystem>

#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

class SafetensorsSource final : public TensorSource {
 public:
  /// Throws what SafetensorsReader does.
  explicit SafetensorsSource(const std::filesystem::path& file) : file_(file) {}

  std::string place() const override { return file_.path().string(); }
  /// PyTorch's counts of batches may be there, too.
  void check(std::span<const SafetensorsEntry> wanted) const override;
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override {
    file_.copy_floats(name, first, out);
  }

 private:
  SafetensorsReader file_;
};

}  // namespace trireme
