// Simulates the time of a plan from given times of its actions: the one simulator behind timelines
// (`trireme plan --timeline`) and step times (`--cluster`).
#pragma once

#include <functional>
#include <optional>
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

/// Of one action of a rank.
struct ActionTime {
  double compute_ms = 0.0;  // of the rank, before it sends
  std::optional<double>
      exchange_ms;  // of the wire, once all ranks of the group are there; none: not simulated
};

struct ActionTimes {
  std::vector<std::string> unit_names;
  std::function<ActionTime(int rank, const Action& action)> of;
  double overlap = 1.0;  // share of an exchange over the data axis that passes beside the rank's work
  bool labels = true;    // of spans: they take longer than all else where there are many ranks
};

/// The same with a time for every action. Exchanges over the data axis begin when the last rank of the group
/// has posted them and none before them is under way, one after the other; a block waits for its gathered
/// parameters, the update and the end of the step for all of them. Sums over the tensor axis, losses and
/// norms wait for all ranks of their group, and for no exchange over the data axis: each axis has a
/// communicator of its own. That both may pass one link is left out.
Timeline simulate_plan(const StepPlan& plan, const ActionTimes& times);

}  // namespace trireme
