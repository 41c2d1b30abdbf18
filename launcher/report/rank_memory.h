// The memory of a step, of the rank that takes most.
#pragma once

#include <cstdint>

#include "parallel/comm/communicator.h"

namespace trireme {

struct RankMemory {
  int rank = 0;
  std::int64_t peak_bytes = 0;  // library workspaces apart
  MemoryCounts peak;            // each category's own peak
};

/// The one with the largest peak_bytes, of the lowest rank among equals, on every rank. Collective; `mine` is
/// of the calling rank.
RankMemory largest_of_ranks(Communicator& comm, const MemoryStats& mine);

}  // namespace trireme
