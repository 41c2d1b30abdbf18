#include "parallel/plan/plan.h"

#include <fmt/core.h>

namespace trireme {

std::string_view name(ActionKind kind) {
  switch (kind) {
    case ActionKind::kGather:
      return "Gather";
    case ActionKind::kRelease:
      return "Release";
    case ActionKind::kForward:
      return "Forward";
    case ActionKind::kRecompute:
      return "Recompute";
    case ActionKind::kBackward:
      return "Backward";
    case ActionKind::kBackwardInput:
      return "BackwardInput";
    case ActionKind::kBackwardWeight:
      return "BackwardWeight";
    case ActionKind::kReduceGrad:
      return "ReduceGrad";
    case ActionKind::kSendActivation:
      return "SendActivation";
    case ActionKind::kRecvActivation:
      return "RecvActivation";
    case ActionKind::kSendGradient:
      return "SendGradient";
    case ActionKind::kRecvGradient:
      return "RecvGradient";
    case ActionKind::kSendTiedGradient:
      return "SendTiedGradient";
    case ActionKind::kRecvTiedGradient:
      return "RecvTiedGradient";
    case ActionKind::kSendTiedParameters:
      return "SendTiedParameters";
    case ActionKind::kRecvTiedParameters:
      return "RecvTiedParameters";
    case ActionKind::kReduceLoss:
      return "ReduceLoss";
    case ActionKind::kGradNorm:
      return "GradNorm";
    case ActionKind::kOptimStep:
      return "OptimStep";
  }
  return "?";
}

Scope scope(ActionKind kind) {
  if (kind == ActionKind::kGather || kind == ActionKind::kReduceGrad || kind == ActionKind::kOptimStep) {
    return Scope::kStage;
  }
  if (kind == ActionKind::kReduceLoss || kind == ActionKind::kGradNorm) return Scope::kWorld;
  return Scope::kRank;
}

std::string to_string(const Action& action) {
  std::string text(name(action.kind));
  if (action.unit >= 0) text += fmt::format(" unit {}", action.unit);
  if (action.micro_batch >= 0) text += fmt::format(" micro-batch {}", action.micro_batch);
  if (action.peer >= 0) text += fmt::format(" peer {}", action.peer);
  if (action.kind == ActionKind::kForward && action.keep == Keep::kInput) text += " keeping its input";
  if (action.kind == ActionKind::kForward && action.keep == Keep::kNothing) text += " keeping nothing";
  return text;
}

}  // namespace trireme
