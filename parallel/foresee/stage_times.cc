#include "parallel/foresee/stage_times.h"

namespace trireme {

std::vector<StageTimes> stage_times(const StageCut& cut, const std::vector<BlockTime>& blocks) {
  std::vector<StageTimes> stages(static_cast<std::size_t>(cut.num_stages()));
  for (int block = 0; block < cut.num_blocks; ++block) {
    const BlockTime& time = blocks[static_cast<std::size_t>(block)];
    StageTimes& stage = stages[static_cast<std::size_t>(cut.stage_of(block))];
    stage.forward_ms += time.forward_ms;
    stage.backward_input_ms += time.backward_ms / 2;
    stage.backward_weight_ms += time.backward_ms / 2;
  }
  return stages;
}

}  // namespace trireme
