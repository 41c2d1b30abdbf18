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

struct PlanPeaks {
  std::int64_t activations = 0;
  std::int64_t with_gradients = 0;  // of data ranks that exchange them once a step
};

/// Of a rank with micro-batches from the first of the step on. There is a sum of gradients for each partial
/// sum of these ([Note: canonical reduction]), or one in all.
PlanPeaks peaks_of(const std::vector<Action>& actions, const StageMap& stages, const ChunkBytes& chunks,
                   Reduction reduction);

}  // namespace trireme
