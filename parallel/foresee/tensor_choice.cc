#include "parallel/foresee/tensor_choice.h"

#include <algorithm>

namespace trireme {

int tensor_chunks(const BlockList& blocks) {
  int least = 0;
  for (const auto& block : blocks) {
    for (const ParameterSpec& spec : block->parameters()) {
      if (!spec.slice.is_whole()) least = least == 0 ? spec.slice.chunks : std::min(least, spec.slice.chunks);
    }
  }
  return std::max(least, 1);
}

bool can_share_sequence(const PlannedJob& job, int tensor) {
  return tensor > 1 && job.sample.input.dim(0) % tensor == 0 &&
         std::ranges::all_of(*job.blocks,
                             [](const auto& block) { return block->sequence_calls().has_value(); });
}

}  // namespace trireme
