// A lower bound on the activations and gradients that a rank holds at once, from its plan, without playing a
// step.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/plan/plan.h"
#include "parallel/reduce/grad_reduction.h"

namespace trireme {

/// Bytes of each chunk of the model on its rank.
struct ChunkBytes {
  std::vector<std::int64_t> kept;       // per micro-batch, from its forward to its backward
  std::vector<std::int64_t> gradients;  // per sum
};

/// Peak of activations and gradients, for both ways of exchanging gradients.
struct PlanPeaks {
  std::int64_t once_a_step = 0;       // once per step: whole sums of gradients are kept
  std::int64_t each_micro_batch = 0;  // each rank keeps its piece of the sums
};

/// Peaks of the first of `data_ranks` ranks. Under Reduction::kCanonical there is a sum of gradients for each
/// partial sum of the micro-batches so far ([Note: canonical reduction]), otherwise one in total.
PlanPeaks peaks_of(const std::vector<Action>& actions, const StageMap& stages, const ChunkBytes& chunks,
                   Reduction reduction, int data_ranks);

}  // namespace trireme
