// What one rank holds while its plan is simulated, and what each action needs of it. validate.h simulates the
// ranks together.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/plan/plan.h"

namespace trireme {

class PlanRankState {
 public:
  PlanRankState(const StepPlan& plan, int rank);

  /// What is wrong with the action, or nothing.
  using Problem = std::optional<std::string>;

  /// Plays an action as far as it concerns this rank alone.
  Problem play(const Action& action);
  /// The receive whose message an action cannot run without.
  std::optional<Action> awaited(const Action& action) const;
  /// Receives that GradNorm cannot finish without: gradients of tied parameters.
  std::vector<Action> awaited_by_norm() const;
  /// What is left over.
  Problem at_end() const;

 private:
  using UnitBatch = std::pair<int, int>;  // unit, micro-batch

  /// Whether the action has what its kind takes, and nothing else.
  Problem check_form(const Action& action) const;
  Problem check_place(const Action& action) const;
  Problem check_peer(const Action& action) const;
  Problem check_tie(const Action& action) const;
  Problem require_resident(const Action& action) const;
  Problem gather(const Action& action);
  Problem release(const Action& action);
  Problem forward(const Action& action);
  Problem recompute(const Action& action);
  /// A Backward, or the part of it that makes the gradient of the input.
  Problem backward(const Action& action);
  Problem backward_weight(const Action& action);
  /// Whether the gradient that a Backward or BackwardWeight makes can still be summed, and its order; notes
  /// it.
  Problem sum_gradient(const Action& action);
  Problem send(const Action& action);
  Problem receive(const Action& action);
  Problem send_tied_gradient(const Action& action);
  Problem receive_tied_gradient(const Action& action);
  Problem tied_parameters(const Action& action);
  Problem reduce_gradient(const Action& action);
  Problem reduce_loss();
  /// A forward that the loss lacks.
  Problem missing_forward() const;
  /// Whether the play came to its end: a loss, and in training a norm and an update.
  Problem unfinished() const;
  Problem grad_norm();
  Problem optim_step();
  /// Of the plan's ties, those that this rank has to do what `kind` says for, as actions.
  std::vector<Action> owed(ActionKind kind) const;

  const StepPlan& plan_;
  const int rank_;
  const Coord coord_;
  std::vector<bool> resident_;
  std::set<int> gathered_;                  // units that a Gather has made resident
  std::set<UnitBatch> forwards_;            // that have run
  std::set<UnitBatch> outputs_;             // output of the unit is here
  std::map<UnitBatch, int> inputs_;         // input of the unit has been asked for, of this rank
  std::set<UnitBatch> tapes_;               // what backward needs is here
  std::set<UnitBatch> pending_;             // forward has run, backward has not
  std::set<UnitBatch> kept_;                // input kept for a recompute
  std::set<UnitBatch> gradients_;           // gradient of the unit's output is here
  std::map<UnitBatch, int> asked_;          // gradient of the unit's output has been asked for, of this rank
  std::set<UnitBatch> deferred_;            // BackwardInput has run, BackwardWeight has not
  std::map<int, int> last_summed_;          // unit -> micro-batch
  std::map<int, std::set<int>> unreduced_;  // unit -> micro-batches whose gradients are not reduced yet
  std::set<int> finished_;                  // units whose gradient of the whole step is reduced
  std::set<int> reduced_apart_;             // units with a micro-batch that was reduced on its own
  std::vector<Action> tied_;                // exchanges for tied parameters that were made
  bool trains_ = false, has_loss_ = false, has_norm_ = false, updated_ = false;
};

}  // namespace trireme
