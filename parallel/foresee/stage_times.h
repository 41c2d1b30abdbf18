// From times of blocks to times of stages.
#pragma once

#include <vector>

#include "parallel/foresee/block_times.h"
#include "parallel/foresee/pipeline_simulate.h"
#include "parallel/foresee/stage_cut.h"

namespace trireme {

/// The blocks of each stage in a row. A backward is split in halves: its products with the weights and those
/// with the inputs are of one size.
std::vector<StageTimes> stage_times(const StageCut& cut, const std::vector<BlockTime>& blocks);

}  // namespace trireme
