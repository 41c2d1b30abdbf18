// The state of a rank's gradients, norm and update while its plan is simulated: everything behind the
// backward. Part of PlanRankState.
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

  /// An error text if the action is wrong, or nothing.
  using Problem = std::optional<std::string>;

  /// True if the gradient that a Backward or BackwardWeight makes can still be summed, and its order; notes
  /// it.
  Problem sum_gradient(const Action& action);
  /// An action of the end of a step, ReduceGrad and GatherGrad among them. `backward_done`: no forward waits
  /// for its backward, nor for a part of it.
  Problem apply(const Action& action, bool backward_done);
  /// Receives that were posted and whose messages an action cannot run without: gradients of tied parameters.
  std::vector<Action> awaited(const Action& action) const;
  /// Of an evaluation of averages, before anything that reads parameters: an error text if these are not in
  /// place.
  Problem begin_evaluation();
  /// Of one, at its ReduceLoss: what follows brings the parameters back.
  Problem end_evaluation();
  /// An error text if something is left over, or nothing.
  Problem at_end() const;

 private:
  /// Of an evaluation of averages: it swaps them for the parameters, reads them, and swaps back.
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
  /// What keeps parameters from being exchanged that an update, or a swap, has changed.
  Problem check_changing() const;
  Problem gather_updated(const Action& action);
  Problem gather_updated_in_host(const Action& action);
  /// A unit that was not changed, or whose change has not reached all of its copies.
  Problem missing_change() const;
  /// A unit with a complete sum that is not gathered as it must be.
  Problem missing_gather() const;
  /// An action that comes once a step: `owed` says whether at all, `ready` whether what it needs has come.
  Problem once(ActionKind kind, bool owed, bool ready, const char* needs);

  Problem check_tie(const Action& action) const;
  /// Of the plan's ties, those that this rank has to do what `kind` says for, as actions.
  std::vector<Action> owed(ActionKind kind) const;
  /// The receives of gradients that a GatherGrad or GradNorm adds.
  std::vector<Action> uses_for(const Action& action) const;
  bool was_made(const Action& exchange) const;
  /// Of what is owed, one that was not done.
  std::optional<Action> missing(ActionKind kind) const;
  bool is_mine(int unit) const;
  bool has_done(ActionKind kind) const { return done_.contains(kind); }
  /// The last of the exchanges up to `outermost` that complete the norms.
  ActionKind last_norms(ActionKind outermost) const;

  const StepPlan& plan_;
  const int rank_;
  const int stage_;
  const bool trains_, swaps_;
  std::map<int, int> last_summed_;          // unit -> micro-batch
  std::map<int, std::set<int>> unreduced_;  // unit -> micro-batches whose gradients are not reduced yet
  std::map<int, int> reducing_in_host_;     // unit -> micro-batch of a ReduceGradInHost, until its ReduceGrad
  std::set<int> reduced_;                   // units whose gradient of the whole step is reduced
  std::set<int> reduced_apart_;             // units with a micro-batch that was reduced on its own
  std::set<int> gathered_;          // units whose gradient every data rank has; of two levels, part of
  std::set<int> gathered_in_host_;  // and all of it
  std::vector<Action> tied_;        // exchanges for tied parameters that were made
  std::set<int> updated_, copied_;  // units by OptimStep or SwapAverages, by GatherUpdated
  std::set<int> copied_in_host_;    // by GatherUpdatedInHost
  std::set<ActionKind> done_;       // what comes once a step
  Swap swap_ = Swap::kThere;        // of an evaluation of averages
};

}  // namespace trireme
