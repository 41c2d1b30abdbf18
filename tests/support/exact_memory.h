// Engines whose memory limit is exactly the predicted peak of a step.
#pragma once

#include <algorithm>
#include <memory>

#include "parallel/foresee/predict.h"
#include "parallel/run/engine.h"

namespace trireme::testing {

/// Options with a memory limit of the largest predicted peak of all ranks, like parallel.memory_limit, which
/// applies to all ranks. Collective.
inline EngineOptions with_predicted_memory(const std::shared_ptr<const BlockList>& blocks,
                                           EngineOptions options, Communicator& comm) {
  const StepPrediction mine = predict_step(blocks, options, *options.sample, comm.size(), comm.rank());
  options.memory_limit = std::ranges::max(comm.all_gather_value(mine.memory.peak_total));
  return options;
}

}  // namespace trireme::testing
