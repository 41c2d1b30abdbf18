// Of layouts none of which fits, the one that needs least.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/layout_candidates.h"

namespace trireme {

struct ClosestLayout {
  std::optional<PlannedJob> job;  // none: the engine has none of them
  std::int64_t bytes = 0;         // of the rank that needs most
};

/// Of the layouts that shard and recompute most; of all where none of these is among them. Stages without a
/// cut are cut so that the largest needs little, in a short step; the job has the cut where it needs no more
/// than `limit_bytes`. `costs`: of each block. `check` as in LayoutSearchOptions.
ClosestLayout closest_layout(const std::vector<LayoutFamily>& families, const std::vector<double>& costs,
                             std::int64_t limit_bytes,
                             const std::function<void(const EngineOptions&)>& check);

}  // namespace trireme
