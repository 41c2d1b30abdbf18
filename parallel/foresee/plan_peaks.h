// The activations and gradients that a rank surely keeps at once, counted along its plan: no step is played.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/plan/plan.h"
#include "parallel/reduce/grad_reduction.h"

namespace trireme {

/// Bytes of each chunk of the model on its rank.
struct ChunkBytes {
  std::vector<std::int64_t> kept;       // of a micro-batch, from its forward to its backward
  std::vector<std::int64_t> gradients;  // of one sum
};

/// Activations and gradients at their worst moment, by what the data ranks exchange.
struct PlanPeaks {
  std::int64_t once_a_step = 0;       // whole sums of gradients are kept
  std::int64_t each_micro_batch = 0;  // each rank keeps its piece of the sums
};

/// Of the first of `data_ranks` ranks. There is a sum of gradients for each partial sum of the micro-batches
/// so far ([Note: canonical reduction]), or one in all.
PlanPeaks peaks_of(const std::vector<Action>& actions, const StageMap& stages, const ChunkBytes& chunks,
                   Reduction reduction, int data_ranks);

}  // namespace trireme
