// The memory of a step, of the rank that takes most.
#pragma once

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
const RankMemory& largest(std::span<const RankMemory> ranks);

}  // namespace trireme
