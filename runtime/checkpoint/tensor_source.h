// A model's tensors by name, as fp32, independent of file format and stored names.
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

/// A tensor that differs between a source and a model; the message names the file and both shapes.
class TensorMismatch : public Error {
 public:
  TensorMismatch(std::string tensor, const std::string& message,
                 std::source_location where = std::source_location::current())
      : Error(ErrorCode::kInvalidInput, message, where), tensor_(std::move(tensor)) {}

  /// Its name in the model, or its name in the files if the model lacks it.
  const std::string& tensor() const { return tensor_; }

 private:
  std::string tensor_;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// The file or folder, for messages.
  virtual std::string place() const = 0;
  /// Throws TensorMismatch naming the file and the first tensor that is missing, has another shape or dtype,
  /// or is not in `wanted`.
  virtual void check(std::span<const SafetensorsEntry> wanted) const = 0;
  /// True for a tensor of a new head that is not in the file: it keeps its initial values.
  virtual bool is_new(const std::string& /*name*/) const { return false; }
  /// Log lines: how names were mapped and which tensors are skipped. Complete after check().
  virtual std::vector<std::string> notes() const { return {}; }
  /// Elements [first, first + out.size()) of the flat tensor `name`, which must have passed check().
  virtual void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const = 0;
};

}  // namespace trireme
