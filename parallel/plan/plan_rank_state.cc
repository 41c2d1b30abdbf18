#include "parallel/plan/plan_rank_state.h"

#include <fmt/core.h>

#include "parallel/plan/plan_messages.h"

namespace trireme {

using enum ActionKind;
using Problem = PlanRankState::Problem;

namespace {

bool has_unit(ActionKind kind) {
  return kind != kReduceLoss && kind != kGradNorm && kind != kOptimStep;
}

bool is_message(ActionKind kind) {
  return is_send(kind) || is_receive(kind);
}

}  // namespace

PlanRankState::PlanRankState(const StepPlan& plan, int rank)
    : plan_(plan),
      rank_(rank),
      coord_(plan.mesh.coord(rank)),
      resident_(static_cast<std::size_t>(plan.num_units), !plan.sharded_parameters) {
  for (const Action& action : plan.ranks[static_cast<std::size_t>(rank)].actions) {
    if (consumes_tape(action.kind) || action.kind == kGradNorm || action.kind == kOptimStep) trains_ = true;
  }
}

Problem PlanRankState::play(const Action& a) {
  if (auto problem = check_form(a)) return problem;
  switch (a.kind) {
    case kReduceLoss:
      return reduce_loss();
    case kGradNorm:
      return grad_norm();
    case kOptimStep:
      return optim_step();
    default:
      break;
  }
  switch (a.kind) {
    case kRecvTiedGradient:
      return receive_tied_gradient(a);
    case kSendTiedGradient:
      return send_tied_gradient(a);
    case kSendTiedParameters:
    case kRecvTiedParameters:
      return tied_parameters(a);
    default:
      break;
  }
  if (auto problem = check_place(a)) return problem;
  switch (a.kind) {
    case kGather:
      return gather(a);
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
    case kReduceGrad:
      return reduce_gradient(a);
    case kSendActivation:
    case kSendGradient:
      return send(a);
    default:
      return receive(a);
  }
}

Problem PlanRankState::check_form(const Action& a) const {
  if (has_unit(a.kind) ? a.unit < 0 || a.unit >= plan_.num_units : a.unit != -1) {
    return fmt::format("there is no unit {}", a.unit);
  }
  const bool tied = a.kind >= kSendTiedGradient && a.kind <= kRecvTiedParameters;
  const bool of_all = !has_unit(a.kind) || tied || a.kind == kGather || a.kind == kRelease;
  const int micro_batches = plan_.ranks[static_cast<std::size_t>(rank_)].micro_batches;
  const bool is_one = a.micro_batch >= 0 && (micro_batches == 0 || a.micro_batch < micro_batches);
  if (of_all || (a.kind == kReduceGrad && a.micro_batch < 0) ? a.micro_batch != -1 : !is_one) {
    return fmt::format("there is no micro-batch {}", a.micro_batch);
  }
  if (!is_message(a.kind) && a.peer != -1) return fmt::format("rank {} has no part in it", a.peer);
  if (a.kind != kForward && a.keep != Keep::kTape) return "only a Forward keeps anything";
  return std::nullopt;
}

Problem PlanRankState::check_place(const Action& a) const {
  if (plan_.stages.bounds.empty()) return std::nullopt;
  const int stage = plan_.stages.stage_of(a.unit);
  if (stage == coord_[Axis::kPipeline]) return std::nullopt;
  return fmt::format("the unit is of stage {}, this rank of stage {}", stage, coord_[Axis::kPipeline]);
}

Problem PlanRankState::check_peer(const Action& a) const {
  if (a.peer < 0 || a.peer >= plan_.mesh.num_ranks()) return fmt::format("there is no rank {}", a.peer);
  if (a.peer == rank_) return "a rank cannot exchange with itself";
  const Coord peer = plan_.mesh.coord(a.peer);
  if (peer[Axis::kData] == coord_[Axis::kData]) return std::nullopt;
  return fmt::format("rank {} has coordinate {} on the data axis, this rank {}: their micro-batches differ",
                     a.peer, peer[Axis::kData], coord_[Axis::kData]);
}

Problem PlanRankState::gather(const Action& a) {
  if (resident_[static_cast<std::size_t>(a.unit)]) return "the unit's parameters are already gathered";
  if (!gathered_.insert(a.unit).second && plan_.keeps_gathered) {
    return "gathers the unit's parameters a second time; the plan keeps them from their first use to their "
           "last";
  }
  resident_[static_cast<std::size_t>(a.unit)] = true;
  return std::nullopt;
}

Problem PlanRankState::release(const Action& a) {
  if (!resident_[static_cast<std::size_t>(a.unit)]) return "the unit's parameters are not gathered";
  if (!plan_.sharded_parameters) return "unsharded parameters cannot be released";
  resident_[static_cast<std::size_t>(a.unit)] = false;
  return std::nullopt;
}

Problem PlanRankState::require_resident(const Action& a) const {
  if (resident_[static_cast<std::size_t>(a.unit)]) return std::nullopt;
  return "uses the unit's parameters while they are released; a Gather must come first";
}

std::optional<Action> PlanRankState::awaited(const Action& a) const {
  const auto find = [&](const std::map<UnitBatch, int>& receives, ActionKind kind) -> std::optional<Action> {
    const auto found = receives.find({a.unit, a.micro_batch});
    if (found == receives.end()) return std::nullopt;
    return Action{.kind = kind, .unit = a.unit, .micro_batch = a.micro_batch, .peer = found->second};
  };
  if (a.kind == kForward) return find(inputs_, kRecvActivation);
  if (consumes_tape(a.kind)) return find(asked_, kRecvGradient);
  if (a.kind == kRecvTiedParameters) return a;
  return std::nullopt;
}

Problem PlanRankState::forward(const Action& a) {
  if (auto problem = require_resident(a)) return problem;
  const UnitBatch here{a.unit, a.micro_batch}, below{a.unit - 1, a.micro_batch};
  if (a.unit > 0 && !outputs_.contains(below) && !inputs_.contains(here)) {
    return "its input is not there: neither computed here nor received";
  }
  if (has_loss_) return "comes after ReduceLoss";
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
  if (kept_.erase(here) == 0 && outputs_.erase({a.unit - 1, a.micro_batch}) == 0) {
    return "its input was not kept, and the unit before it was not recomputed";
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
  if (!last && gradients_.erase(here) == 0 && asked_.erase(here) == 0) {
    return "the gradient of its output is not there";
  }
  tapes_.erase(here);
  pending_.erase(here);
  outputs_.erase(here);
  if (a.unit > 0) gradients_.insert({a.unit - 1, a.micro_batch});
  if (a.kind == kBackward) return sum_gradient(a);
  deferred_.insert(here);
  return std::nullopt;
}

Problem PlanRankState::backward_weight(const Action& a) {
  if (deferred_.erase({a.unit, a.micro_batch}) == 0) {
    return "no BackwardInput of it has run, or it has run itself";
  }
  // As in a plain backward: units may share a buffer that the first of them completes.
  if (deferred_.contains({a.unit + 1, a.micro_batch})) return "that of the unit after it must come first";
  return sum_gradient(a);
}

Problem PlanRankState::sum_gradient(const Action& a) {
  if (has_norm_) return "comes after GradNorm: its gradient would be lost";
  if (finished_.contains(a.unit)) return "the unit's gradient of the whole step is already reduced";
  const auto before = last_summed_.find(a.unit);
  if (before != last_summed_.end() && before->second > a.micro_batch) {
    return fmt::format("micro-batch {} of the unit was summed before it: gradients are summed in order",
                       before->second);
  }
  last_summed_[a.unit] = a.micro_batch;
  unreduced_[a.unit].insert(a.micro_batch);
  return std::nullopt;
}

Problem PlanRankState::send(const Action& a) {
  if (auto problem = check_peer(a)) return problem;
  if (a.kind == kSendActivation) {
    if (outputs_.erase({a.unit, a.micro_batch}) == 0) return "the unit's output is not here to send";
  } else if (gradients_.erase({a.unit - 1, a.micro_batch}) == 0) {
    return "the gradient of the unit's input is not here to send";
  }
  return std::nullopt;
}

Problem PlanRankState::receive(const Action& a) {
  if (auto problem = check_peer(a)) return problem;
  auto& expected = a.kind == kRecvActivation ? inputs_ : asked_;
  if (!expected.emplace(UnitBatch{a.unit, a.micro_batch}, a.peer).second) return "received a second time";
  return std::nullopt;
}

}  // namespace trireme
