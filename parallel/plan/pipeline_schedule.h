// Pipeline schedules as data (GPipe, 1F1B, interleaved, zero-bubble H1): the ordered tasks of each pipeline
// rank. The planner adds communication, recompute and sharding; plan_simulate.h computes times.
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
    kBackwardInput,   // gradient of the stage's input, for which the previous stage waits
    kBackwardWeight,  // gradient of the parameters, for which nothing waits
  };
  Kind kind = Kind::kForward;
  int chunk = 0;  // virtual stage in [0, stages * chunks)
  int micro_batch = 0;
  bool operator==(const PipelineTask&) const = default;
};

/// "Forward stage 3 micro-batch 1".
std::string to_string(const PipelineTask& task);

/// [stages] lists of each pipeline rank's tasks, in order.
///
/// Each virtual stage runs its forwards in micro-batch order, and also its backwards (each part, for zb-h1).
/// Between two ranks activations are consumed in the order in which they are sent, and so are gradients.
/// Sends must not wait for their receive, or schedules other than gpipe can block.
///
/// Throws Error(kInvalidInput), naming the field: numbers below 1, `chunks` other than 1 for a schedule that
/// is not interleaved, `chunks` = 1 for interleaved, and interleaved with fewer micro-batches than stages.
///
/// Sources: Huang et al. 2019 (GPipe); Narayanan et al. 2021 (1F1B, interleaved); Qi et al. 2023 (ZB-H1).
std::vector<std::vector<PipelineTask>> pipeline_tasks(PipelineSchedule schedule, int stages, int chunks,
                                                      int micro_batches);

}  // namespace trireme
