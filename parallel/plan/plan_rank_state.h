// The state of one rank while its plan is simulated, and the requirements of each action. validate.h
// simulates all ranks together.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/plan/plan.h"
#include "parallel/plan/plan_update_state.h"

namespace trireme {

class PlanRankState {
 public:
  PlanRankState(const StepPlan& plan, int rank);

  /// An error text, or empty if the action is valid.
  using Problem = std::optional<std::string>;

  /// Plays an action, as far as it concerns only this rank.
  Problem apply(const Action& action);
  /// The receives whose messages an action needs to run.
  std::vector<Action> awaited(const Action& action) const;
  /// An error text if something is left over.
  Problem at_end() const;
  /// [unit]: true if its parameters are resident.
  const std::vector<bool>& resident() const { return resident_; }

 private:
  using UnitBatch = std::pair<int, int>;  // unit, micro-batch

  /// Checks that the action has the fields that its kind takes, and no others.
  Problem check_form(const Action& action) const;
  Problem check_stage(const Action& action) const;
  Problem check_peer(const Action& action) const;
  Problem check_calls(const Action& action);
  Problem missing_calls() const;
  Problem require_resident(const Action& action) const;
  Problem gather(const Action& action);
  Problem gather_in_host(const Action& action);
  Problem release(const Action& action);
  Problem forward(const Action& action);
  Problem recompute(const Action& action);
  /// A Backward, or its first part, which computes the gradient of the input.
  Problem backward(const Action& action);
  Problem backward_weight(const Action& action);
  Problem send(const Action& action);
  Problem receive(const Action& action);
  Problem reduce_loss();
  /// Returns an error if the loss lacks a forward.
  Problem missing_forward() const;

  const StepPlan& plan_;
  const int rank_;
  const Coord coord_;
  std::vector<bool> resident_;
  std::set<int> gathered_;           // units that a Gather has made resident
  std::set<int> owed_in_host_;       // units that are gathered over the hosts, but not yet inside the host
  std::set<UnitBatch> forwards_;     // that have run
  std::set<UnitBatch> outputs_;      // output of the unit is on this rank
  std::map<UnitBatch, int> inputs_;  // receive of the unit's input was posted; action of this rank
  std::set<UnitBatch> tapes_;        // the tape for backward is on this rank
  std::set<UnitBatch> pending_;      // forward has run, backward has not
  std::set<UnitBatch> kept_;         // input kept for a recompute
  std::set<UnitBatch> gradients_;    // gradient of the unit's output is on this rank
  std::map<UnitBatch, int> posted_;  // receive of its output gradient was posted; action of this rank
  std::set<UnitBatch> deferred_;     // BackwardInput has run, BackwardWeight has not
  std::span<const TensorCall> owed_calls_;  // calls over the tensor axis that must come next
  UnitBatch calls_of_;                      // unit and micro-batch of owed_calls_
  bool trains_ = false, has_loss_ = false;
  PlanUpdateState update_;
};

}  // namespace trireme
