// Memory of a step, on the rank with the largest peak.
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

/// The element with the largest peak_bytes, the first on ties. `ranks` must not be empty.
inline const RankMemory& largest(std::span<const RankMemory> ranks) {
  return *std::ranges::max_element(ranks, {}, &RankMemory::peak_bytes);
}

}  // namespace trireme
