// The memory of a step, of the rank that takes most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/base/allocator.h"

namespace trireme {

struct RankMemory {
  int rank = 0;
  std::int64_t peak_bytes = 0;  // without library workspaces
  MemoryCounts peak;            // each category's own peak
};

/// The one with the largest peak_bytes, the first among equals. `ranks` is not empty.
inline const RankMemory& largest(std::span<const RankMemory> ranks) {
  return *std::ranges::max_element(ranks, {}, &RankMemory::peak_bytes);
}

}  // namespace trireme
