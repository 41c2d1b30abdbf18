#include "parallel/plan/plan_rank_state.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme {

using enum ActionKind;
using Problem = PlanRankState::Problem;

namespace {

// True if the plan has an action that only training has.
bool is_training(const RankPlan& plan) {
  return std::ranges::any_of(plan.actions, [](const Action& a) { return traits(a.kind).trains; });
}

}  // namespace

PlanRankState::PlanRankState(const StepPlan& plan, int rank)
    : plan_(plan),
      rank_(rank),
      coord_(plan.mesh.coord(rank)),
      resident_(static_cast<std::size_t>(plan.num_units), !plan.sharded_parameters),
      trains_(is_training(plan.ranks[static_cast<std::size_t>(rank)])),
      update_(plan, rank, trains_) {}

Problem PlanRankState::apply(const Action& a) {
  if (auto problem = check_form(a)) return problem;
  if (auto problem = check_calls(a)) return problem;
  const ActionTraits& facts = traits(a.kind);
  if (facts.direction != Direction::kNone) {
    if (auto problem = check_peer(a)) return problem;
  }
  if (facts.unit == Takes::kYes) {
    if (auto problem = check_stage(a)) return problem;
  }
  switch (a.kind) {
    case kGather:
      return gather(a);
    case kGatherInHost:
      return gather_in_host(a);
    case kRelease:
      return release(a);
    case kForward:
      return forward(a);
    case kRecompute:
      return recompute(a);
    case kBackward:
    case kBackwardInput:
      return backward(a);
    case kBackwardWeight:
      return backward_weight(a);
    case kSendActivation:
    case kSendGradient:
      return send(a);
    case kRecvActivation:
    case kRecvGradient:
      return receive(a);
    case kSumChunks:
    case kReduceScatterSequence:
    case kGatherSequence:
      return std::nullopt;
    case kReduceLoss:
      return reduce_loss();
    default:
      return update_.apply(a, pending_.empty() && deferred_.empty());
  }
}

Problem PlanRankState::check_form(const Action& a) const {
  const ActionTraits& facts = traits(a.kind);
  const int micro_batches = plan_.ranks[static_cast<std::size_t>(rank_)].micro_batches;
  if (facts.unit == Takes::kNo ? a.unit != -1 : a.unit < 0 || a.unit >= plan_.num_units) {
    return fmt::format("there is no unit {}", a.unit);
  }
  const bool may_have_none = facts.micro_batch != Takes::kYes;
  const bool may_have_one = facts.micro_batch != Takes::kNo;
  const bool is_one =
      may_have_one && a.micro_batch >= 0 && (micro_batches == 0 || a.micro_batch < micro_batches);
  if (!is_one && !(may_have_none && a.micro_batch == -1)) {
    return fmt::format("there is no micro-batch {}", a.micro_batch);
  }
  if (facts.direction == Direction::kNone && a.peer != -1)
    return fmt::format("rank {} has no part in it", a.peer);
  if (a.kind != kForward && a.keep != Keep::kTape) return "only a Forward keeps anything";
  return std::nullopt;
}

// The calls of an action over the tensor axis must follow it directly.
Problem PlanRankState::check_calls(const Action& a) {
  if (!is_tensor_call(a.kind)) {
    if (auto problem = missing_calls()) return problem;
    owed_calls_ = plan_.calls_of(a);
    calls_of_ = {a.unit, a.micro_batch};
    return std::nullopt;
  }
  if (owed_calls_.empty() || calls_of_ != UnitBatch{a.unit, a.micro_batch}) {
    return "the action before it leaves nothing to do over the tensor axis";
  }
  if (action_of(owed_calls_.front()) != a.kind) return missing_calls();
  owed_calls_ = owed_calls_.subspan(1);
  return std::nullopt;
}

Problem PlanRankState::missing_calls() const {
  if (owed_calls_.empty()) return std::nullopt;
  return fmt::format("{} of unit {} micro-batch {} must come first, one of {} over the tensor axis",
                     name(action_of(owed_calls_.front())), calls_of_.first, calls_of_.second,
                     owed_calls_.size());
}

// Tied parameters also belong to a unit of another stage; PlanUpdateState checks them.
Problem PlanRankState::check_stage(const Action& a) const {
  if (plan_.stages.bounds.empty() || traits(a.kind).channel == Channel::kTied) return std::nullopt;
  const int stage = plan_.stages.stage_of(a.unit);
  const bool of_copies = a.kind == kGatherUpdated || a.kind == kGatherUpdatedInHost;
  if (stage == coord_[Axis::kPipeline] || of_copies) return std::nullopt;
  return fmt::format("the unit is of stage {}, this rank of stage {}", stage, coord_[Axis::kPipeline]);
}

Problem PlanRankState::check_peer(const Action& a) const {
  if (a.peer < 0 || a.peer >= plan_.mesh.num_ranks()) return fmt::format("there is no rank {}", a.peer);
  if (a.peer == rank_) return "a rank cannot exchange with itself";
  const Coord peer = plan_.mesh.coord(a.peer);
  if (peer[Axis::kTensor] != coord_[Axis::kTensor]) {
    return fmt::format("rank {} has place {} on the tensor axis, this rank {}: their chunks differ", a.peer,
                       peer[Axis::kTensor], coord_[Axis::kTensor]);
  }
  if (peer[Axis::kData] == coord_[Axis::kData]) return std::nullopt;
  return fmt::format("rank {} has coordinate {} on the data axis, this rank {}: their micro-batches differ",
                     a.peer, peer[Axis::kData], coord_[Axis::kData]);
}

Problem PlanRankState::gather(const Action& a) {
  if (auto problem = update_.begin_evaluation()) return problem;
  if (resident_[static_cast<std::size_t>(a.unit)]) return "the unit's parameters are already gathered";
  if (!gathered_.insert(a.unit).second && plan_.keeps_gathered) {
    return "gathers the unit's parameters a second time; the plan keeps them from their first use to their "
           "last";
  }
  resident_[static_cast<std::size_t>(a.unit)] = true;
  if (plan_.is_hierarchical()) owed_in_host_.insert(a.unit);
  return std::nullopt;
}

Problem PlanRankState::gather_in_host(const Action& a) {
  if (owed_in_host_.erase(a.unit) == 0) return "the unit was not gathered over the hosts before";
  return std::nullopt;
}

Problem PlanRankState::release(const Action& a) {
  if (!resident_[static_cast<std::size_t>(a.unit)]) return "the unit's parameters are not gathered";
  if (!plan_.sharded_parameters) return "unsharded parameters cannot be released";
  if (owed_in_host_.contains(a.unit)) return "the unit's parameters were gathered over the hosts in vain";
  resident_[static_cast<std::size_t>(a.unit)] = false;
  return std::nullopt;
}

Problem PlanRankState::require_resident(const Action& a) const {
  if (owed_in_host_.contains(a.unit)) {
    return "uses the unit's parameters before they are gathered inside of the host; a GatherInHost must come "
           "first";
  }
  if (resident_[static_cast<std::size_t>(a.unit)]) return std::nullopt;
  return "uses the unit's parameters while they are released; a Gather must come first";
}

std::vector<Action> PlanRankState::awaited(const Action& a) const {
  const auto find = [&](const std::map<UnitBatch, int>& receives, ActionKind kind) -> std::vector<Action> {
    const auto found = receives.find({a.unit, a.micro_batch});
    if (found == receives.end()) return {};
    return {{.kind = kind, .unit = a.unit, .micro_batch = a.micro_batch, .peer = found->second}};
  };
  if (traits(a.kind).takes_from == Channel::kActivations) return find(inputs_, kRecvActivation);
  if (traits(a.kind).takes_from == Channel::kGradients) return find(posted_, kRecvGradient);
  if (a.kind == kRecvTiedParameters) return {a};
  return update_.awaited(a);
}

Problem PlanRankState::forward(const Action& a) {
  if (auto problem = require_resident(a)) return problem;
  const UnitBatch here{a.unit, a.micro_batch}, below{a.unit - 1, a.micro_batch};
  if (a.unit > 0 && !outputs_.contains(below) && !inputs_.contains(here)) {
    return "its input is not there: neither computed here nor received";
  }
  if (has_loss_) return "comes after ReduceLoss";
  if (auto problem = update_.begin_evaluation()) return problem;
  if (!trains_ && a.keep != Keep::kNothing) return "keeps what no backward will consume";
  if (!forwards_.insert(here).second) return "runs a second time";
  if (inputs_.erase(here) == 0) outputs_.erase(below);
  outputs_.insert(here);
  if (!trains_) return std::nullopt;
  pending_.insert(here);
  if (a.keep == Keep::kTape) tapes_.insert(here);
  if (a.keep == Keep::kInput) kept_.insert(here);
  return std::nullopt;
}

Problem PlanRankState::recompute(const Action& a) {
  if (auto problem = require_resident(a)) return problem;
  const UnitBatch here{a.unit, a.micro_batch};
  if (!pending_.contains(here)) return "no forward of it has run, or backward has consumed it";
  if (tapes_.contains(here)) return "what backward needs is already here";
  const bool kept = kept_.erase(here) > 0;
  if (kept == (outputs_.erase({a.unit - 1, a.micro_batch}) > 0)) {
    return kept ? "its input was kept in vain: the unit before it was recomputed"
                : "its input was not kept, and the unit before it was not recomputed";
  }
  outputs_.insert(here);
  tapes_.insert(here);
  return std::nullopt;
}

Problem PlanRankState::backward(const Action& a) {
  if (auto problem = require_resident(a)) return problem;
  const UnitBatch here{a.unit, a.micro_batch};
  if (!pending_.contains(here)) return "no forward of it has run, or backward has consumed it";
  if (!tapes_.contains(here)) return "its forward kept no tape; a Recompute must come first";
  const bool last = a.unit == plan_.num_units - 1;
  if (!last && gradients_.erase(here) == 0 && posted_.erase(here) == 0) {
    return "the gradient of its output is not there";
  }
  tapes_.erase(here);
  pending_.erase(here);
  outputs_.erase(here);
  if (a.unit > 0) gradients_.insert({a.unit - 1, a.micro_batch});
  if (a.kind == kBackward) return update_.sum_gradient(a);
  deferred_.insert(here);
  return std::nullopt;
}

Problem PlanRankState::backward_weight(const Action& a) {
  if (deferred_.erase({a.unit, a.micro_batch}) == 0) {
    return "no BackwardInput of it has run, or it has run itself";
  }
  // As in an undivided backward: units may share a buffer, which the first of them completes.
  if (deferred_.contains({a.unit + 1, a.micro_batch})) return "that of the unit after it must come first";
  return update_.sum_gradient(a);
}

Problem PlanRankState::send(const Action& a) {
  if (a.kind == kSendActivation) {
    if (outputs_.erase({a.unit, a.micro_batch}) == 0) return "the unit's output is not here to send";
  } else if (gradients_.erase({a.unit - 1, a.micro_batch}) == 0) {
    return "the gradient of the unit's input is not here to send";
  }
  return std::nullopt;
}

Problem PlanRankState::receive(const Action& a) {
  auto& expected = a.kind == kRecvActivation ? inputs_ : posted_;
  if (!expected.emplace(UnitBatch{a.unit, a.micro_batch}, a.peer).second) return "received a second time";
  return std::nullopt;
}

Problem PlanRankState::reduce_loss() {
  if (!inputs_.empty()) {
    return fmt::format("the input of unit {} micro-batch {} was received and is not used yet",
                       inputs_.begin()->first.first, inputs_.begin()->first.second);
  }
  if (has_loss_) return "comes a second time";
  has_loss_ = true;
  if (auto problem = missing_forward()) return problem;
  return update_.end_evaluation();
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

// Ranks that share no collective with others could end early unnoticed.
Problem PlanRankState::at_end() const {
  if (auto problem = missing_calls()) return problem;
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
  if (!gradients_.empty() || !posted_.empty()) {
    const auto [unit, micro_batch] = gradients_.empty() ? posted_.begin()->first : *gradients_.begin();
    return fmt::format("the gradient of unit {} micro-batch {} is never used", unit, micro_batch);
  }
  if (!has_loss_) return "the loss is never reduced: there is no ReduceLoss";
  return update_.at_end();
}

}  // namespace trireme
