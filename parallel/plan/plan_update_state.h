// The state of a rank's gradients, norm and update while its plan is simulated: everything after backward.
// Part of PlanRankState.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/plan/plan.h"

namespace trireme {

class PlanUpdateState {
 public:
  /// `trains`: the plan is a training step, not an evaluation.
  PlanUpdateState(const StepPlan& plan, int rank, bool trains);

  /// An error text, or empty if the action is valid.
  using Problem = std::optional<std::string>;

  /// Records the gradient of a Backward or BackwardWeight. Returns an error if it can no longer be summed, or
  /// comes out of order.
  Problem sum_gradient(const Action& action);
  /// Plays an action of the end of a step, including ReduceGrad and GatherGrad. `backward_done`: no forward
  /// waits for its backward or a part of it.
  Problem apply(const Action& action, bool backward_done);
  /// Posted receives whose messages an action needs to run: gradients of tied parameters.
  std::vector<Action> awaited(const Action& action) const;
  /// For an evaluation of averages, before anything reads parameters: an error text unless the averages are
  /// in place.
  Problem begin_evaluation();
  /// For an evaluation of averages, at its ReduceLoss: the following actions restore the parameters.
  Problem end_evaluation();
  /// An error text if something is left over.
  Problem at_end() const;

 private:
  /// Phases of an evaluation of averages: swap the averages in, read them, swap back.
  enum class Swap : std::uint8_t { kThere, kEvaluates, kBack };

  Problem check_reducible(const Action& action) const;
  Problem reduce_grad_in_host(const Action& action);
  Problem reduce_grad(const Action& action);
  Problem gather_grad(const Action& action);
  Problem gather_grad_in_host(const Action& action);
  Problem send_tied_gradient(const Action& action, bool backward_done);
  Problem tied_gradient(const Action& action);
  Problem tied_parameters(const Action& action);
  Problem grad_norm();
  Problem clip_grad();
  Problem optim_step(const Action& action);
  Problem swap_averages(const Action& action);
  /// An error text if parameters that an update or swap has changed cannot be exchanged yet.
  Problem check_changing() const;
  Problem gather_updated(const Action& action);
  Problem gather_updated_in_host(const Action& action);
  /// Returns an error for a unit that was not changed, or whose change has not reached all of its copies.
  Problem missing_change() const;
  /// Returns an error for a unit with a complete sum that still has to be gathered.
  Problem missing_gather() const;
  /// An action that runs once per step. `owed`: the step needs it; `ready`: its inputs are complete.
  Problem once(ActionKind kind, bool owed, bool ready, const char* needs);

  Problem check_tie(const Action& action) const;
  /// The actions of `kind` that the plan's ties require of this rank.
  std::vector<Action> owed(ActionKind kind) const;
  /// The receives of gradients that a GatherGrad or GradNorm adds.
  std::vector<Action> uses_for(const Action& action) const;
  bool was_made(const Action& exchange) const;
  /// An action of owed(kind) that was not done.
  std::optional<Action> missing(ActionKind kind) const;
  bool is_mine(int unit) const;
  bool has_done(ActionKind kind) const { return done_.contains(kind); }
  /// The last exchange, up to `outermost`, that completes the norms.
  ActionKind last_norms(ActionKind outermost) const;

  const StepPlan& plan_;
  const int rank_;
  const int stage_;
  const bool trains_, swaps_;
  std::map<int, int> last_summed_;          // unit -> micro-batch
  std::map<int, std::set<int>> unreduced_;  // unit -> micro-batches whose gradients are not reduced yet
  std::map<int, int> reducing_in_host_;     // unit -> micro-batch of a ReduceGradInHost, until its ReduceGrad
  std::set<int> reduced_;                   // units whose gradient of the whole step is reduced
  std::set<int> reduced_apart_;             // units with a micro-batch that was reduced separately
  std::set<int> gathered_;          // units whose gradient every data rank has; with two levels, a part of it
  std::set<int> gathered_in_host_;  // with two levels: all of it
  std::vector<Action> tied_;        // exchanges made for tied parameters
  std::set<int> updated_, copied_;  // units of OptimStep or SwapAverages; units of GatherUpdated
  std::set<int> copied_in_host_;    // units of GatherUpdatedInHost
  std::set<ActionKind> done_;       // actions that run once per step
  Swap swap_ = Swap::kThere;        // for an evaluation of averages
};

}  // namespace trireme
