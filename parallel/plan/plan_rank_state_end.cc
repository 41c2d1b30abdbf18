// The end of a step of one rank: sums over ranks and uses, loss, norm and update, and what may not be left
// over.
#include <fmt/core.h>

#include <algorithm>

#include "parallel/plan/plan_rank_state.h"

namespace trireme {

using enum ActionKind;
using Problem = PlanRankState::Problem;

std::vector<Action> PlanRankState::owed(ActionKind kind) const {
  const bool of_gradient = kind == kSendTiedGradient || kind == kRecvTiedGradient;
  const bool as_user = kind == kSendTiedGradient || kind == kRecvTiedParameters;
  std::vector<Action> actions;
  for (const TiedUnits& tie : plan_.ties) {
    const int mine = plan_.stages.stage_of(as_user ? tie.user : tie.owner);
    const int other = plan_.stages.stage_of(as_user ? tie.owner : tie.user);
    const Action action{.kind = kind,
                        .unit = of_gradient ? tie.user : tie.owner,
                        .peer = plan_.mesh.rank_along(Axis::kPipeline, rank_, other)};
    if (mine == coord_[Axis::kPipeline] && std::ranges::find(actions, action) == actions.end())
      actions.push_back(action);
  }
  return actions;
}

Problem PlanRankState::check_tie(const Action& a) const {
  if (auto problem = check_peer(a)) return problem;
  const auto all = owed(a.kind);
  if (std::ranges::find(all, a) == all.end()) return "no parameter of the unit is tied over these two ranks";
  if (std::ranges::find(tied_, a) != tied_.end()) return "comes a second time";
  return std::nullopt;
}

Problem PlanRankState::send_tied_gradient(const Action& a) {
  if (auto problem = check_tie(a)) return problem;
  if (!unreduced_.empty() || !pending_.empty() || !deferred_.empty())
    return "comes before the last gradient of this rank is reduced";
  if (has_loss_) return "comes after ReduceLoss, which not every rank of the stage has come to";
  tied_.push_back(a);
  return std::nullopt;
}

Problem PlanRankState::receive_tied_gradient(const Action& a) {
  if (auto problem = check_tie(a)) return problem;
  if (has_norm_) return "comes after GradNorm: the gradient would be lost";
  tied_.push_back(a);
  return std::nullopt;
}

Problem PlanRankState::tied_parameters(const Action& a) {
  if (auto problem = check_tie(a)) return problem;
  if (!updated_) return "comes before OptimStep";
  tied_.push_back(a);
  return std::nullopt;
}

// Of the whole step, after its last backward; or of one micro-batch, before the next one's backward.
Problem PlanRankState::reduce_gradient(const Action& a) {
  const auto open = unreduced_.find(a.unit);
  if (open == unreduced_.end()) return "the unit has no gradient to reduce";
  if (a.micro_batch < 0) {
    if (reduced_apart_.contains(a.unit)) return "earlier micro-batches of the unit were reduced on their own";
    finished_.insert(a.unit);
  } else if (open->second != std::set<int>{a.micro_batch}) {
    return fmt::format(
        "the gradient of micro-batch {} is not reduced on its own: it has met others or is missing",
        a.micro_batch);
  }
  if (a.micro_batch >= 0) reduced_apart_.insert(a.unit);
  unreduced_.erase(open);
  return std::nullopt;
}

Problem PlanRankState::reduce_loss() {
  if (!inputs_.empty()) {
    return fmt::format("the input of unit {} micro-batch {} was received and is not used yet",
                       inputs_.begin()->first.first, inputs_.begin()->first.second);
  }
  if (has_loss_) return "comes a second time";
  has_loss_ = true;
  return missing_forward();
}

Problem PlanRankState::missing_forward() const {
  const int micro_batches = plan_.ranks[static_cast<std::size_t>(rank_)].micro_batches;
  for (int u = 0; u < plan_.num_units; ++u) {
    if (!plan_.stages.bounds.empty() && plan_.stages.stage_of(u) != coord_[Axis::kPipeline]) continue;
    for (int m = 0; m < micro_batches; ++m) {
      if (!forwards_.contains({u, m})) {
        return fmt::format("no forward of unit {} micro-batch {} has run: the loss lacks it", u, m);
      }
    }
  }
  return std::nullopt;
}

// Ranks that make no collective with others would end early unnoticed.
Problem PlanRankState::unfinished() const {
  if (!has_loss_) return "the loss is never reduced: there is no ReduceLoss";
  if (trains_ && !has_norm_) return "the gradient norm is never computed: there is no GradNorm";
  if (trains_ && !updated_) return "the parameters are never updated: there is no OptimStep";
  return std::nullopt;
}

std::vector<Action> PlanRankState::awaited_by_norm() const {
  return owed(kRecvTiedGradient);
}

Problem PlanRankState::grad_norm() {
  if (has_norm_) return "comes a second time";
  if (!unreduced_.empty())
    return fmt::format("the gradient of unit {} is not reduced yet", unreduced_.begin()->first);
  for (const ActionKind kind : {kSendTiedGradient, kRecvTiedGradient}) {
    for (const Action& action : owed(kind)) {
      if (std::ranges::find(tied_, action) == tied_.end()) return to_string(action) + " has not come";
    }
  }
  has_norm_ = true;
  return std::nullopt;
}

Problem PlanRankState::optim_step() {
  if (!has_norm_) return "updates before GradNorm has set the clip coefficient";
  if (updated_) return "updates a second time";
  updated_ = true;
  return std::nullopt;
}

Problem PlanRankState::at_end() const {
  for (int u = 0; u < plan_.num_units; ++u) {
    if (resident_[static_cast<std::size_t>(u)] == plan_.sharded_parameters) {
      return fmt::format("unit {} is left {}", u, plan_.sharded_parameters ? "gathered" : "released");
    }
  }
  if (!pending_.empty()) {
    return fmt::format("forward of unit {} micro-batch {} is never followed by its backward",
                       pending_.begin()->first, pending_.begin()->second);
  }
  if (!deferred_.empty()) {
    return fmt::format("BackwardInput of unit {} micro-batch {} is never followed by its BackwardWeight",
                       deferred_.begin()->first, deferred_.begin()->second);
  }
  if (!unreduced_.empty())
    return fmt::format("the gradient of unit {} is never reduced", unreduced_.begin()->first);
  if (!gradients_.empty() || !asked_.empty()) {
    const auto [unit, micro_batch] = gradients_.empty() ? asked_.begin()->first : *gradients_.begin();
    return fmt::format("the gradient of unit {} micro-batch {} is never used", unit, micro_batch);
  }
  if (auto problem = unfinished()) return problem;
  if (!trains_) return std::nullopt;
  for (const ActionKind kind : {kSendTiedParameters, kRecvTiedParameters}) {
    for (const Action& action : owed(kind)) {
      if (std::ranges::find(tied_, action) == tied_.end()) return to_string(action) + " never comes";
    }
  }
  return std::nullopt;
}

}  // namespace trireme
