// The logits and targets of a micro-batch in host memory: one copy for all that an evaluation counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/context.h"

namespace trireme {

class HostLogits {
 public:
  /// logits [..., C], one int32 target per row in [0, C), negative if left out. Waits for the device. Throws
  /// Error(kInvalidInput) for other numbers of rows and targets.
  HostLogits(const Context& ctx, const Tensor& logits, const Tensor& targets);

  std::size_t num_rows() const { return targets_.size(); }
  std::int64_t num_classes() const { return num_classes_; }
  std::int32_t target(std::size_t row) const { return targets_[row]; }
  std::span<const float> row(std::size_t row) const;

 private:
  std::int64_t num_classes_;
  std::vector<float> values_;
  std::vector<std::int32_t> targets_;
};

}  // namespace trireme
