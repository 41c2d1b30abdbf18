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

/// Parses "4" or "2:4". Throws Error(kInvalidInput) for anything else, and if MIN > MAX.
RankRange parse_ranks(const std::string& text);

/// The largest number of ranks in `range` whose plan is valid and fits in memory, computed as `trireme plan`
/// does. Batch, micro-batch and stages stay the job's, so its results stay the same. If there is none, throws
/// Error(kInvalidInput) with the reason for the largest number.
int choose_ranks(const JobConfig& config, const RankRange& range, const LaunchEnvironment& launch);

}  // namespace trireme
