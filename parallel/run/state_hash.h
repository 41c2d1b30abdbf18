// The hash of a training state. What is saved of one: checkpoint_state.h.
#pragma once

#include <cstdint>

#include "parallel/run/rank_parts.h"

namespace trireme {

/// Of all parameters, their averages, optimizer state and running statistics in global order: equal on every
/// layout that did the same steps. Collective.
std::uint64_t state_hash(const RankParts& parts);

}  // namespace trireme
