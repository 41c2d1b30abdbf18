// Values of which each rank has a part: threads write them into one array, processes combine theirs.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// An element that this process does not have. No other number is below it, read as an int32.
inline constexpr float kMissing = -0.0f;

/// Every process gets the values that any of them has, bit for bit. Collective. Host memory.
void combine(Communicator& comm, std::span<float> values);

/// Logits of a batch.
struct GatheredLogits {
  std::vector<std::int64_t> shape;  // [B, ..., C]; empty: this process has none
  std::vector<float> values;

  /// The logits of samples [first, first + count) of the `batch` samples. From the threads of all ranks.
  void add(std::int64_t batch, std::int64_t first, std::int64_t count, const Shape& shape,
           std::span<const float> values);
  void combine(Communicator& comm);

 private:
  std::mutex mutex_;
};

}  // namespace trireme
