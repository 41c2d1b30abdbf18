// Of layouts none of which fits, the one that needs least.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/accumulation_choice.h"
#include "parallel/foresee/layout_candidates.h"

namespace trireme {

struct ClosestLayout {
  std::optional<PlannedJob> job;  // none: the engine has none of them
  std::int64_t bytes = 0;         // of the rank that needs most
};

/// Of the layouts that shard and recompute most; of all where none of these is among them. Each keeps as
/// little of a step as `open` lets it. Stages without a cut get one whose largest stage needs little,
/// by the peaks of a short step. `costs`: of each block. `check` as in LayoutSearchOptions.
ClosestLayout closest_layout(const std::vector<LayoutFamily>& families, const std::vector<double>& costs,
                             const OpenFields& open, const std::function<void(const EngineOptions&)>& check);

}  // namespace trireme
