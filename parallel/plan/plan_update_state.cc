#include "parallel/plan/plan_update_state.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme {

using enum ActionKind;
using Problem = PlanUpdateState::Problem;

PlanUpdateState::PlanUpdateState(const StepPlan& plan, int rank, bool trains)
    : plan_(plan),
      rank_(rank),
      stage_(plan.mesh.coord(rank)[Axis::kPipeline]),
      trains_(trains),
      swaps_(plan.evaluates_averages && !trains) {}

bool PlanUpdateState::is_mine(int unit) const {
  return plan_.stages.bounds.empty() || plan_.stages.stage_of(unit) == stage_;
}

Problem PlanUpdateState::sum_gradient(const Action& a) {
  if (has_done(kGradNorm)) return "comes after GradNorm: its gradient would be lost";
  if (reduced_.contains(a.unit)) return "the unit's gradient of the whole step is already reduced";
  if (reducing_in_host_.contains(a.unit)) return "comes between the two halves of a reduction of the unit";
  const auto before = last_summed_.find(a.unit);
  if (before != last_summed_.end() && before->second > a.micro_batch) {
    return fmt::format("micro-batch {} of the unit was summed before it: gradients are summed in order",
                       before->second);
  }
  last_summed_[a.unit] = a.micro_batch;
  unreduced_[a.unit].insert(a.micro_batch);
  return std::nullopt;
}

Problem PlanUpdateState::apply(const Action& a, bool backward_done) {
  switch (a.kind) {
    case kReduceGradInHost:
      return reduce_grad_in_host(a);
    case kReduceGrad:
      return reduce_grad(a);
    case kGatherGrad:
      return gather_grad(a);
    case kGatherGradInHost:
      return gather_grad_in_host(a);
    case kSendTiedGradient:
      return send_tied_gradient(a, backward_done);
    case kRecvTiedGradient:
      return tied_gradient(a);
    case kSendTiedParameters:
    case kRecvTiedParameters:
      return tied_parameters(a);
    case kGradNorm:
      return grad_norm();
    case kGatherNorms:
      return once(a.kind, plan_.owed.gathers_norms, has_done(kGradNorm), "GradNorm");
    case kGatherChunkNorms:
      return once(a.kind, plan_.mesh.size(Axis::kTensor) > 1, has_done(last_norms(kGatherNorms)),
                  "the norms of this rank's chunks are complete");
    case kBroadcastNorms:
      return once(a.kind, plan_.mesh.size(Axis::kPipeline) > 1, has_done(last_norms(kGatherChunkNorms)),
                  "the norms of this stage are complete");
    case kClipGrad:
      return clip_grad();
    case kOptimStep:
      return optim_step(a);
    case kGatherUpdated:
      return gather_updated(a);
    case kGatherUpdatedInHost:
      return gather_updated_in_host(a);
    case kSwapAverages:
      return swap_averages(a);
    case kReduceStatistics:
      return once(a.kind, plan_.owes_statistics(stage_), has_done(kClipGrad), "ClipGrad");
    default:
      return "is no action of the end of a step";
  }
}

Problem PlanUpdateState::once(ActionKind kind, bool owed, bool ready, const char* needs) {
  if (!owed) return "has nothing to exchange in this plan";
  if (!ready) return fmt::format("comes before {}", needs);
  if (!done_.insert(kind).second) return "comes a second time";
  return std::nullopt;
}

// Either the whole step, after its last backward, or one micro-batch, before the next one's backward.
Problem PlanUpdateState::check_reducible(const Action& a) const {
  const auto open = unreduced_.find(a.unit);
  if (open == unreduced_.end()) return "the unit has no gradient to reduce";
  if (a.micro_batch < 0) {
    if (reduced_apart_.contains(a.unit)) return "earlier micro-batches of the unit were reduced on their own";
  } else if (open->second != std::set<int>{a.micro_batch}) {
    return fmt::format(
        "the gradient of micro-batch {} is not reduced on its own: it was added to others or is missing",
        a.micro_batch);
  }
  return std::nullopt;
}

Problem PlanUpdateState::reduce_grad_in_host(const Action& a) {
  if (!plan_.is_hierarchical()) return "has nothing to exchange in this plan";
  if (auto problem = check_reducible(a)) return problem;
  if (!reducing_in_host_.emplace(a.unit, a.micro_batch).second) return "comes a second time";
  return std::nullopt;
}

Problem PlanUpdateState::reduce_grad(const Action& a) {
  if (auto problem = check_reducible(a)) return problem;
  if (plan_.is_hierarchical()) {
    const auto in_host = reducing_in_host_.find(a.unit);
    if (in_host == reducing_in_host_.end() || in_host->second != a.micro_batch) {
      return "comes before the gradient is reduced inside of the host";
    }
    reducing_in_host_.erase(in_host);
  }
  (a.micro_batch < 0 ? reduced_ : reduced_apart_).insert(a.unit);
  unreduced_.erase(a.unit);
  return std::nullopt;
}

Problem PlanUpdateState::gather_grad(const Action& a) {
  if (!plan_.owed.gathers_gradients) return "has nothing to exchange in this plan";
  if (!reduced_.contains(a.unit)) return "comes before the unit's gradient of the whole step is reduced";
  if (has_done(kGradNorm)) return "comes after GradNorm, which needs it";
  for (const Action& use : uses_for(a)) {
    if (!was_made(use)) return "comes before " + to_string(use);
  }
  if (!gathered_.insert(a.unit).second) return "comes a second time";
  return std::nullopt;
}

Problem PlanUpdateState::gather_grad_in_host(const Action& a) {
  if (!plan_.owed.gathers_gradients_in_host) return "has nothing to exchange in this plan";
  if (!(plan_.owed.gathers_gradients ? gathered_ : reduced_).contains(a.unit)) {
    return "comes before the unit's gradient is exchanged over the hosts";
  }
  if (has_done(kGradNorm)) return "comes after GradNorm, which needs it";
  if (!gathered_in_host_.insert(a.unit).second) return "comes a second time";
  return std::nullopt;
}

Problem PlanUpdateState::missing_gather() const {
  for (const int unit : reduced_) {
    if (plan_.owed.gathers_gradients && !gathered_.contains(unit)) {
      return fmt::format("the gradient of unit {} is not gathered yet", unit);
    }
    if (plan_.owed.gathers_gradients_in_host && !gathered_in_host_.contains(unit)) {
      return fmt::format("the gradient of unit {} is not gathered inside of the host yet", unit);
    }
  }
  return std::nullopt;
}

std::vector<Action> PlanUpdateState::owed(ActionKind kind) const {
  const bool of_gradient = kind == kSendTiedGradient || kind == kRecvTiedGradient;
  const bool as_user = kind == kSendTiedGradient || kind == kRecvTiedParameters;
  std::vector<Action> actions;
  for (const TiedUnits& tie : plan_.ties) {
    const int mine = plan_.stages.stage_of(as_user ? tie.user : tie.owner);
    const int other = plan_.stages.stage_of(as_user ? tie.owner : tie.user);
    const Action action{.kind = kind,
                        .unit = of_gradient ? tie.user : tie.owner,
                        .peer = plan_.mesh.rank_along(Axis::kPipeline, rank_, other)};
    if (mine == stage_ && std::ranges::find(actions, action) == actions.end()) actions.push_back(action);
  }
  return actions;
}

bool PlanUpdateState::was_made(const Action& exchange) const {
  return std::ranges::find(tied_, exchange) != tied_.end();
}

std::optional<Action> PlanUpdateState::missing(ActionKind kind) const {
  for (const Action& action : owed(kind)) {
    if (!was_made(action)) return action;
  }
  return std::nullopt;
}

Problem PlanUpdateState::check_tie(const Action& a) const {
  const auto all = owed(a.kind);
  if (std::ranges::find(all, a) == all.end()) return "no parameter of the unit is tied over these two ranks";
  if (was_made(a)) return "comes a second time";
  return std::nullopt;
}

Problem PlanUpdateState::send_tied_gradient(const Action& a, bool backward_done) {
  if (!backward_done || !unreduced_.empty()) return "comes before the last gradient of this rank is reduced";
  // Ranks send pieces. If there are no pieces, they send whole gradients.
  if (plan_.owed.gathers_gradients_in_host && !plan_.owed.gathers_gradients) {
    if (auto problem = missing_gather()) return problem;
  }
  return tied_gradient(a);
}

Problem PlanUpdateState::tied_gradient(const Action& a) {
  if (auto problem = check_tie(a)) return problem;
  if (has_done(kGradNorm)) return "comes after GradNorm: the gradient would be lost";
  tied_.push_back(a);
  return std::nullopt;
}

Problem PlanUpdateState::tied_parameters(const Action& a) {
  if (auto problem = check_tie(a)) return problem;
  // The received parameters replace a working copy, so the last backward of this rank must come first.
  const bool sends = a.kind == kSendTiedParameters;
  if (sends && !updated_.contains(a.unit)) return "comes before the unit's parameters are changed";
  if (auto problem = check_changing()) return problem;
  tied_.push_back(a);
  return std::nullopt;
}

std::vector<Action> PlanUpdateState::awaited(const Action& a) const {
  std::vector<Action> receives = uses_for(a);
  std::erase_if(receives, [&](const Action& receive) { return !was_made(receive); });
  return receives;
}

std::vector<Action> PlanUpdateState::uses_for(const Action& a) const {
  if (a.kind != kGradNorm && a.kind != kGatherGrad) return {};
  std::vector<Action> receives = owed(kRecvTiedGradient);
  if (a.kind == kGatherGrad) {
    std::erase_if(receives, [&](const Action& receive) {
      return std::ranges::find(plan_.ties, TiedUnits{.owner = a.unit, .user = receive.unit}) ==
             plan_.ties.end();
    });
  }
  return receives;
}

Problem PlanUpdateState::grad_norm() {
  if (!unreduced_.empty())
    return fmt::format("the gradient of unit {} is not reduced yet", unreduced_.begin()->first);
  for (const ActionKind kind : {kSendTiedGradient, kRecvTiedGradient}) {
    if (const auto action = missing(kind)) return to_string(*action) + " has not come";
  }
  if (auto problem = missing_gather()) return problem;
  return once(kGradNorm, true, true, "");
}

// Order of the exchanges: data axis, tensor axis, pipeline axis.
ActionKind PlanUpdateState::last_norms(ActionKind outermost) const {
  if (outermost == kBroadcastNorms && plan_.mesh.size(Axis::kPipeline) > 1) return kBroadcastNorms;
  if (outermost != kGatherNorms && plan_.mesh.size(Axis::kTensor) > 1) return kGatherChunkNorms;
  return plan_.owed.gathers_norms ? kGatherNorms : kGradNorm;
}

Problem PlanUpdateState::clip_grad() {
  return once(kClipGrad, true, has_done(last_norms(kBroadcastNorms)),
              "the norms of all parameters are complete");
}

Problem PlanUpdateState::optim_step(const Action& a) {
  if (!has_done(kClipGrad)) return "updates before ClipGrad has set the clip coefficient";
  if (!updated_.insert(a.unit).second) return "updates a second time";
  return std::nullopt;
}

Problem PlanUpdateState::swap_averages(const Action& a) {
  if (!swaps_) return "has nothing to exchange in this plan";
  if (auto problem = check_changing()) return problem;
  if (!updated_.insert(a.unit).second) return "swaps a second time";
  return std::nullopt;
}

Problem PlanUpdateState::check_changing() const {
  if (!swaps_ && !has_done(kClipGrad)) return "comes before ClipGrad";
  if (swaps_ && swap_ == Swap::kEvaluates) return "comes before ReduceLoss: averages are still evaluated";
  return std::nullopt;
}

Problem PlanUpdateState::begin_evaluation() {
  if (!swaps_ || swap_ == Swap::kEvaluates) return std::nullopt;
  if (swap_ == Swap::kBack) return "comes after ReduceLoss";
  swap_ = Swap::kEvaluates;
  return missing_change();
}

Problem PlanUpdateState::end_evaluation() {
  if (auto problem = begin_evaluation()) return problem;
  if (!swaps_) return std::nullopt;
  swap_ = Swap::kBack;
  updated_.clear();
  copied_.clear();
  copied_in_host_.clear();
  tied_.clear();
  return std::nullopt;
}

Problem PlanUpdateState::gather_updated(const Action& a) {
  if (!plan_.owed.gathers_updated) return "has nothing to exchange in this plan";
  if (auto problem = check_changing()) return problem;
  const auto received = [&](const Action& t) { return t.kind == kRecvTiedParameters && t.unit == a.unit; };
  if (is_mine(a.unit) ? !updated_.contains(a.unit) : std::ranges::none_of(tied_, received)) {
    return "comes before the unit's parameters are updated";
  }
  if (!copied_.insert(a.unit).second) return "comes a second time";
  return std::nullopt;
}

Problem PlanUpdateState::gather_updated_in_host(const Action& a) {
  if (!plan_.is_hierarchical()) return "has nothing to exchange in this plan";
  if (auto problem = check_changing()) return problem;
  if (!copied_.contains(a.unit)) return "comes before the unit's parameters are gathered over the hosts";
  if (!copied_in_host_.insert(a.unit).second) return "comes a second time";
  return std::nullopt;
}

Problem PlanUpdateState::at_end() const {
  if (!unreduced_.empty())
    return fmt::format("the gradient of unit {} is never reduced", unreduced_.begin()->first);
  if (!trains_) return swaps_ ? missing_change() : std::nullopt;
  if (!has_done(kGradNorm)) return "the gradient norm is never computed: there is no GradNorm";
  if (!has_done(kClipGrad)) return "the clip coefficient is never computed: there is no ClipGrad";
  if (plan_.owes_statistics(stage_) && !has_done(kReduceStatistics)) {
    return "the running statistics never move: there is no ReduceStatistics";
  }
  return missing_change();
}

Problem PlanUpdateState::missing_change() const {
  for (int unit = 0; unit < plan_.num_units; ++unit) {
    if (!is_mine(unit)) continue;
    if (!updated_.contains(unit)) {
      return fmt::format("unit {} is not {}", unit,
                         trains_ ? "updated: it has no OptimStep" : "swapped: it has no SwapAverages");
    }
    if (plan_.owed.gathers_updated && !copied_.contains(unit)) {
      return fmt::format("the change of unit {} is never gathered: it has no GatherUpdated", unit);
    }
  }
  for (const int unit : copied_) {
    if (plan_.is_hierarchical() && !copied_in_host_.contains(unit)) {
      return fmt::format(
          "the update of unit {} never spreads inside of the host: it has no GatherUpdatedInHost", unit);
    }
  }
  for (const ActionKind kind : {kSendTiedParameters, kRecvTiedParameters}) {
    if (const auto action = missing(kind)) return to_string(*action) + " never comes";
  }
  for (const Action& copy : owed(kRecvTiedParameters)) {
    if (plan_.owed.gathers_updated && !copied_.contains(copy.unit)) {
      return fmt::format("the copy of unit {} is never gathered: it has no GatherUpdated", copy.unit);
    }
  }
  return std::nullopt;
}

}  // namespace trireme
