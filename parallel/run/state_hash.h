// The hash of a training state. For saved state see checkpoint_state.h.
#pragma once

#include <cstdint>

#include "parallel/run/rank_parts.h"

namespace trireme {

/// Hash of all parameters, their averages, optimizer state and running statistics in global order. It is
/// equal on every layout that ran the same steps. Collective.
std::uint64_t state_hash(const RankParts& parts);

}  // namespace trireme
