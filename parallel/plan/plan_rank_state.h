// The state of one rank while its plan is simulated, and what each action needs of it. validate.h simulates
// the ranks together.
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

  /// An error text if the action is wrong, or nothing.
  using Problem = std::optional<std::string>;

  /// Plays an action as far as it concerns this rank alone.
  Problem apply(const Action& action);
  /// The receives whose messages an action cannot run without.
  std::vector<Action> awaited(const Action& action) const;
  /// An error text if something is left over, or nothing.
  Problem at_end() const;
  /// By unit, whether its parameters are here.
  const std::vector<bool>& resident() const { return resident_; }

 private:
  using UnitBatch = std::pair<int, int>;  // unit, micro-batch

  /// True if the action has what its kind takes, and nothing else.
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
  /// A Backward, or the part of it that makes the gradient of the input.
  Problem backward(const Action& action);
  Problem backward_weight(const Action& action);
  Problem send(const Action& action);
  Problem receive(const Action& action);
  Problem reduce_loss();
  /// A forward that the loss lacks.
  Problem missing_forward() const;

  const StepPlan& plan_;
  const int rank_;
  const Coord coord_;
  std::vector<bool> resident_;
  std::set<int> gathered_;           // units that a Gather has made resident
  std::set<int> owed_in_host_;       // units that are gathered over the hosts, and not inside of them yet
  std::set<UnitBatch> forwards_;     // that have run
  std::set<UnitBatch> outputs_;      // output of the unit is here
  std::map<UnitBatch, int> inputs_;  // input of the unit has been posted, of this rank
  std::set<UnitBatch> tapes_;        // what backward needs is here
  std::set<UnitBatch> pending_;      // forward has run, backward has not
  std::set<UnitBatch> kept_;         // input kept for a recompute
  std::set<UnitBatch> gradients_;    // gradient of the unit's output is here
  std::map<UnitBatch, int> posted_;  // receive of the gradient of the unit's output, of this rank
  std::set<UnitBatch> deferred_;     // BackwardInput has run, BackwardWeight has not
  std::span<const TensorCall> owed_calls_;  // over the tensor axis, that must come next
  UnitBatch calls_of_;                      // of these
  bool trains_ = false, has_loss_ = false;
  PlanUpdateState update_;
};

}  // namespace trireme
