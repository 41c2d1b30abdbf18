// The number of ranks of the next attempt: the largest whose plan is valid.
#pragma once

#include <optional>

#include "launcher/config/config.h"
#include "launcher/host/env.h"

namespace trireme {

/// --ranks MIN:MAX
struct RankRange {
  int min = 1, max = 1;
};

/// "4" or "2:4". Throws Error(kInvalidInput) for anything else, and for MIN above MAX.
RankRange parse_ranks(const std::string& text);

/// The largest number of ranks in `range` whose plan is valid and fits into memory, by what `trireme plan`
/// does with a resolved job. Batch, micro-batch and stages are the job's, so its results are the same. Throws
/// Error(kInvalidInput) with the reason against the largest where there is none.
int choose_ranks(const JobConfig& config, const RankRange& range, const LaunchEnvironment& launch);

}  // namespace trireme
