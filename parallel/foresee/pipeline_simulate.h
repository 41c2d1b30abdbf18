// How long a pipeline schedule takes, found by playing it with given times: makespan, idle time,
// micro-batches alive. Proves on the way that the schedule is whole and cannot block.
#pragma once

#include <vector>

#include "parallel/foresee/timeline.h"
#include "parallel/plan/pipeline_schedule.h"

namespace trireme {

/// Of one micro-batch on one virtual stage.
struct StageTimes {
  double forward_ms = 0.0;
  double backward_input_ms = 0.0;  // a backward that is not split takes both
  double backward_weight_ms = 0.0;
};

struct PipelineTimes {
  std::vector<StageTimes> stages;  // by virtual stage
  double send_ms = 0.0;            // from the end of a task until another rank has its result
};

struct TaskTime {
  PipelineTask task;
  double start_ms = 0.0, end_ms = 0.0;
};

struct PipelineSimulation {
  std::vector<std::vector<TaskTime>> ranks;  // the tasks of each rank, in order
  std::vector<double> idle_ms;               // [rank] makespan without the time of its tasks
  std::vector<int> alive;  // [rank] most micro-batches, over its chunks, forwarded and not wholly back
  double makespan_ms = 0.0;

  /// The part of ranks x makespan in which nothing runs.
  double bubble_share() const;
};

/// Plays `tasks` (as of pipeline_tasks()): a rank runs them in order, each as soon as what it needs is there.
/// Sends take no time of the ranks, never wait for their receive and arrive in order.
///
/// Throws Error(kInvalidInput) when the tasks block (naming what each rank waits for), when a task lies on a
/// wrong rank, runs twice or is missing.
PipelineSimulation simulate_pipeline(const std::vector<std::vector<PipelineTask>>& tasks,
                                     const PipelineTimes& times);

/// The simulation as a picture's data, sends included where they take time.
Timeline to_timeline(const PipelineSimulation& simulation, const PipelineTimes& times);

}  // namespace trireme
