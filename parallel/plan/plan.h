// A training step as data: for each rank, a list of actions. For the reasons see README.md of parallel/.
//
// A plan can be read, printed, diffed, costed (run on the meta device) and proved (validate.h) before
// anything runs.
#pragma once

#include <span>
#include <vector>

#include "parallel/layout/stage_map.h"
#include "parallel/mesh/mesh.h"
#include "parallel/plan/action.h"
#include "runtime/block.h"

namespace trireme {

/// The calls over the tensor axis that a block makes in one action of its unit, in order.
inline std::span<const TensorCall> calls_of(const Action& action, const TensorCalls& block) {
  if (action.kind == ActionKind::kForward || action.kind == ActionKind::kRecompute) return block.forward;
  if (traits(action.kind).consumes_tape) return block.backward;
  return {};
}

struct RankPlan {
  std::vector<Action> actions;
  int send_window = 1;    // see [Note: what blocks]
  int micro_batches = 0;  // forwards of every unit of its stage; 0: the rank is idle, or unknown
};

/// Exchanges that a step needs besides messages and losses, given what each rank keeps.
struct OwedExchanges {
  bool gathers_gradients = false;          // every data rank updates everything: GatherGrad of every unit
  bool gathers_gradients_in_host = false;  // on two levels: GatherGradInHost of every unit
  bool gathers_norms = false;              // data ranks have pieces of the gradients: GatherNorms
  bool gathers_updated = false;            // data ranks update pieces of whole working copies: GatherUpdated
  std::vector<bool> has_statistics;        // by stage: ReduceStatistics; empty: no stage has any
};

struct StepPlan {
  Mesh mesh;
  int num_units = 0;
  bool sharded_parameters = false;  // units start and end released (ZeRO-3)
  bool keeps_gathered = false;      // units are gathered once per step
  bool evaluates_averages = false;  // an evaluation between two SwapAverages of every unit
  int data_ranks_per_host = 1;      // 2 or more: the data axis has two levels, with this many ranks per host
  OwedExchanges owed;
  StageMap stages;                        // without bounds: all units on every rank
  std::vector<TiedUnits> ties;            // between stages
  std::vector<TensorCalls> tensor_calls;  // by unit; empty: no unit makes any
  std::vector<RankPlan> ranks;

  /// The calls of an action over the tensor axis; each is a separate action after it.
  std::span<const TensorCall> calls_of(const Action& action) const {
    if (tensor_calls.empty() || !computes(action.kind)) return {};
    return trireme::calls_of(action, tensor_calls[static_cast<std::size_t>(action.unit)]);
  }
  bool is_hierarchical() const { return data_ranks_per_host > 1; }
  bool owes_statistics(int stage) const {
    return !owed.has_statistics.empty() && owed.has_statistics[static_cast<std::size_t>(stage)];
  }
};

}  // namespace trireme
