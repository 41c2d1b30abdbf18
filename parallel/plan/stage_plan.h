// The plan of one pipeline stage: its tasks become actions. planner.h combines the stages.
#pragma once

#include <vector>

#include "parallel/plan/planner.h"

namespace trireme {

struct StageTasks {
  int stage = 0;
  std::vector<PipelineTask> tasks;  // of its rank, in order
  int micro_batches = 1;            // per data rank
  bool training = true;
};

/// All actions except the final ones of the whole model. `options.stages` has bounds. Peers are stages, not
/// ranks.
RankPlan plan_stage(const StageTasks& tasks, const PlanOptions& options);

}  // namespace trireme
