// Pipeline schedules as data (GPipe, 1F1B, interleaved, zero-bubble H1): what each pipeline rank runs, in
// order. Communication, recompute and sharding are the planner's to add; times are plan_simulate.h's to
// find.
//
// The model is cut into stages * chunks virtual stages; virtual stage c runs on pipeline rank c % stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/layout/layout.h"

namespace trireme {

struct PipelineTask {
  enum class Kind : std::uint8_t {
    kForward,
    kBackward,        // both gradients
    kBackwardInput,   // of the stage's input: what the stage before it waits for
    kBackwardWeight,  // of the parameters: nothing waits for it
  };
  Kind kind = Kind::kForward;
  int chunk = 0;  // virtual stage in [0, stages * chunks)
  int micro_batch = 0;
  bool operator==(const PipelineTask&) const = default;
};

/// "Forward stage 3 micro-batch 1".
std::string to_string(const PipelineTask& task);

/// [stages] lists of what each pipeline rank runs, in order.
///
/// Each virtual stage runs its forwards in micro-batch order, and its backwards too (of zb-h1, either part).
/// Between two ranks the activations are consumed in the order in which they are sent, and so are the
/// gradients. Sends must not wait for their receive, else schedules other than gpipe can block.
///
/// Throws Error(kInvalidInput), naming the field of EngineOptions: numbers below 1, `chunks` other than 1
/// for a schedule that is not interleaved or 1 for one that is, and interleaved with fewer micro-batches than
/// stages.
///
/// Sources: Huang et al. 2019 (GPipe); Narayanan et al. 2021 (1F1B, interleaved); Qi et al. 2023 (ZB-H1).
std::vector<std::vector<PipelineTask>> pipeline_tasks(PipelineSchedule schedule, int stages, int chunks,
                                                      int micro_batches);

}  // namespace trireme
