// Simulates a plan in time, given the times of its actions. It is the only simulator, for timelines (`trireme
// plan --timeline`) and for step times (`--cluster`).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/block_times.h"
#include "parallel/plan/plan.h"
#include "parallel/plan/timeline.h"

namespace trireme {

struct PlanTimes {
  std::vector<BlockTime> blocks;  // by unit
  double send_ms = 0.0;           // from a send until it arrives
  double weight_share = 0.5;      // share of a backward for the parameters' gradient, if it runs separately
};

/// Plays a validated plan of all ranks. Forwards, recomputes and backwards take the times of their blocks,
/// sends arrive later, and collectives over all ranks (loss, norm, update) wait for the last rank. Other
/// actions take no time: exchanges of a stage overlap the work of its ranks. Every action that takes time
/// makes one span.
///
/// Throws Error(kInvalidInput) if the plan blocks, naming ranks and actions.
Timeline simulate_plan(const StepPlan& plan, const PlanTimes& times);

/// The time of one action of a rank.
struct ActionTime {
  double compute_ms = 0.0;  // of the rank, before it sends
  std::optional<double>
      exchange_ms;  // on the link, once all ranks of the group have posted; empty: not simulated
};

struct ActionTimes {
  std::vector<std::string> unit_names;
  std::function<ActionTime(int rank, const Action& action)> of;
  double overlap = 1.0;  // share of an exchange over the data axis that overlaps the rank's work
  bool labels = true;    // make labels of spans; with many ranks they take most of the time
};

/// The same with a time for every action. Exchanges over the data axis run one after the other. Each begins
/// when the last rank of the group has posted it and the previous one has ended. A block waits for its
/// gathered parameters; the update and the end of the step wait for all exchanges. Sums over the tensor axis,
/// losses and norms wait for all ranks of their group, but for no exchange over the data axis, because each
/// axis has its own communicator. Contention of both axes on one link is not modelled.
Timeline simulate_plan(const StepPlan& plan, const ActionTimes& times);

}  // namespace trireme
