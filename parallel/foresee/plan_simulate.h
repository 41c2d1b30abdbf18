// Simulates the time of a plan from given times of blocks: the data of `trireme plan
// --timeline`.
#pragma once

#include <vector>

#include "parallel/foresee/block_times.h"
#include "parallel/foresee/timeline.h"
#include "parallel/plan/plan.h"

namespace trireme {

struct PlanTimes {
  std::vector<BlockTime> blocks;  // by unit
  double send_ms = 0.0;           // from a send until the peer has it
  double weight_share = 0.5;      // of a backward: the parameters' gradient, where it runs on its own
};

/// Plays a validated plan of all ranks: forwards, recomputes and backwards take the times of their blocks,
/// sends arrive later, and collectives over all ranks (loss, norm, update) wait for the last of them. The
/// rest takes no time: exchanges of a stage overlap the work of its ranks. A span an action that takes time.
///
/// Throws Error(kInvalidInput) when the plan blocks, naming the ranks and actions.
Timeline simulate_plan(const StepPlan& plan, const PlanTimes& times);

}  // namespace trireme
