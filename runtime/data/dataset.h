// A set of samples that can be read by index, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace trireme {

/// Samples of a micro-batch in host memory, ready to be copied to a device.
struct HostBatch {
  Shape input_shape, target_shape;  // dim 0 = number of samples
  DType input_dtype = DType::kInt32;
  std::vector<std::byte> inputs;
  std::vector<std::int32_t> targets;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Samples in one pass (an epoch).
  virtual std::int64_t num_samples() const = 0;
  /// Targets that one sample contributes to the loss (T for tokens, 1 for a label).
  virtual std::int64_t targets_per_sample() const = 0;
  /// Reads samples by their index in training order: sample i of the run belongs to epoch i / num_samples()
  /// and its place there follows from the seed alone. Thread-safe.
  virtual HostBatch read_train(std::int64_t first, std::int64_t count) const = 0;
  /// Reads samples in file order, for evaluation: indices in [0, num_samples()).
  virtual HostBatch read_sequential(std::int64_t first, std::int64_t count) const = 0;
};

}  // namespace trireme
