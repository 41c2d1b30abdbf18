// A training step as data: for each rank, a list of actions. Why: README.md of parallel/.
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

/// Of what a block has the tensor ranks do together, that in one action of its unit, in order.
inline std::span<const TensorCall> calls_of(const Action& action, const TensorCalls& block) {
  if (action.kind == ActionKind::kForward || action.kind == ActionKind::kRecompute) return block.forward;
  if (traits(action.kind).consumes_tape) return block.backward;
  return {};
}

struct RankPlan {
  std::vector<Action> actions;
  int send_window = 1;  // see [Note: what blocks]
  int micro_batches =
      0;  // that every unit of its stage runs forward on; 0: the rank is idle, or it is not known
};

/// The exchanges that a step needs beside messages and losses, by what each rank keeps.
struct OwedExchanges {
  bool gathers_gradients = false;          // every data rank updates everything: GatherGrad of every unit
  bool gathers_gradients_in_host = false;  // on two levels: GatherGradInHost of every unit
  bool gathers_norms = false;              // a data rank has pieces of the gradients: GatherNorms
  bool gathers_updated = false;      // and updates pieces of working copies that are whole: GatherUpdated
  std::vector<bool> has_statistics;  // by stage: ReduceStatistics; empty: none has
};

struct StepPlan {
  Mesh mesh;
  int num_units = 0;
  bool sharded_parameters = false;  // units start and end released (ZeRO-3)
  bool keeps_gathered = false;      // and are gathered once
  bool evaluates_averages = false;  // an evaluation between two SwapAverages of every unit
  int data_ranks_per_host = 1;      // 2 or more: the data axis has two levels, of runs of so many
  OwedExchanges owed;
  StageMap stages;                        // without bounds: all units on every rank
  std::vector<TiedUnits> ties;            // between stages
  std::vector<TensorCalls> tensor_calls;  // by unit; empty: none makes any
  std::vector<RankPlan> ranks;

  /// What an action does over the tensor axis, each an action behind it.
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
