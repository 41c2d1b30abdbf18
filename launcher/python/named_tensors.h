// A state in memory of the caller, as a source of tensors.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

/// Elements of a flat tensor in memory of the caller, fp32.
struct NamedFloats {
  SafetensorsEntry entry;  // of the whole tensor
  std::uint64_t first = 0;
  std::span<float> values;
};

class NamedTensors final : public TensorSource {
 public:
  /// `tensors` outlive this, and may be pieces. Throws Error(kInvalidInput) for pieces that do not fit a
  /// shape.
  explicit NamedTensors(const std::vector<NamedFloats>& tensors);

  std::string place() const override { return "the state"; }
  void check(std::span<const SafetensorsEntry> wanted) const override;
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override;

 private:
  std::map<std::string, std::vector<const NamedFloats*>> pieces_;
};

}  // namespace trireme
