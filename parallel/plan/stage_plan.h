// The plan of one stage of the pipeline: its tasks become actions. planner.h puts the stages together.
#pragma once

#include <vector>

#include "parallel/plan/planner.h"

namespace trireme {

struct StageTasks {
  int stage = 0;
  std::vector<PipelineTask> tasks;  // of its rank, in order
  int micro_batches = 1;            // of a data rank
  bool training = true;
};

/// All actions up to, but without, those of the whole model. `options.stages` has bounds. Peers are stages,
/// not ranks.
RankPlan plan_stage(const StageTasks& tasks, const PlanOptions& options);

}  // namespace trireme
