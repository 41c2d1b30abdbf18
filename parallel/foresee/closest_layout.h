// The layout that needs the least memory, for jobs of which no layout fits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/accumulation_choice.h"
#include "parallel/foresee/layout_candidates.h"

namespace trireme {

struct ClosestLayout {
  std::optional<PlannedJob> job;  // empty: the engine supports none of them
  std::int64_t bytes = 0;         // of the rank that needs most
};

/// Searches the layouts that shard and recompute most, or all layouts if there are none among these. Each
/// keeps as little of a step as `open` allows. Stages without a cut get one with a small largest stage, by
/// the peaks of a short step. `costs`: per block. `check` as in LayoutSearchOptions.
ClosestLayout closest_layout(const std::vector<LayoutFamily>& families, const std::vector<double>& costs,
                             const OpenFields& open, const std::function<void(const EngineOptions&)>& check);

}  // namespace trireme
