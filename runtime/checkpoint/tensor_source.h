// A model's tensors by name, as fp32, whatever files keep them and under which names.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_header.h"

namespace trireme {

/// A tensor that a source and a model do not have alike; the message names the file, and both shapes.
class TensorMismatch : public Error {
 public:
  TensorMismatch(std::string tensor, const std::string& message,
                 std::source_location where = std::source_location::current())
      : Error(ErrorCode::kInvalidInput, message, where), tensor_(std::move(tensor)) {}

  /// By its name in the model, or in the files where the model does not have it.
  const std::string& tensor() const { return tensor_; }

 private:
  std::string tensor_;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// The file or folder, for messages.
  virtual std::string place() const = 0;
  /// Throws TensorMismatch naming the file and the first tensor that is missing, of another shape or
  /// dtype, or not one of `wanted`.
  virtual void check(std::span<const SafetensorsEntry> wanted) const = 0;
  /// True for a tensor of ours that is not there and may stay as it was drawn: of a new head.
  virtual bool is_new(const std::string& /*name*/) const { return false; }
  /// Lines for the log: how names were understood, what is left out. Complete after check().
  virtual std::vector<std::string> notes() const { return {}; }
  /// Elements [first, first + out.size()) of the flat tensor `name`, one that check() was asked for.
  virtual void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const = 0;
};

}  // namespace trireme
