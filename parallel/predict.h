// What a step will need, found by playing its plan on the meta device: same engine, same blocks, nothing
// computed. See [Note: memory accounting].
#pragma once

#include "parallel/engine.h"

namespace trireme {

/// Shapes of one sample, without the batch dim.
struct SampleSpec {
  Shape input;
  DType input_dtype = DType::kInt32;
  Shape target;
};

struct StepPrediction {
  MemoryStats memory;           // equal to the byte to StepResult::memory of a run, workspaces apart
  std::int64_t sent_bytes = 0;  // equal to StepResult::sent_bytes
};

/// Predicts a step of rank `rank` of `num_ranks`. options.device, threads and memory_limit are ignored.
StepPrediction predict_step(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                            const SampleSpec& sample, int num_ranks, int rank);

}  // namespace trireme
