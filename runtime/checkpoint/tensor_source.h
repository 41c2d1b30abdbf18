// A model's tensors by name, as fp32, whatever files keep them and under which names.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/checkpoint/safetensors_header.h"

namespace trireme {

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// The file or folder, for messages.
  virtual std::string place() const = 0;
  /// Throws Error(kInvalidInput) naming the file and the first tensor that is missing, of another shape or
  /// dtype, or not one of `wanted`.
  virtual void check(std::span<const SafetensorsEntry> wanted) const = 0;
  /// True for a tensor of ours that is not there and may stay as it was drawn: of a new head.
  virtual bool is_new(const std::string& /*name*/) const { return false; }
  /// Elements [first, first + out.size()) of the flat tensor `name`, one that check() was asked for.
  virtual void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const = 0;
};

}  // namespace trireme
