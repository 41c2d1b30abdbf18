#include "parallel/plan/action.h"

#include <fmt/core.h>

#include <array>

namespace trireme {
namespace {

using enum ActionKind;

constexpr std::array<ActionTraits, kNumActionKinds> kTraits{{
    {.kind = kGather, .name = "Gather", .scope = Scope::kData, .replayed = true, .trains = false},
    {.kind = kGatherInHost, .name = "GatherInHost", .scope = Scope::kHost, .replayed = true, .trains = false},
    {.kind = kRelease, .name = "Release", .replayed = true, .trains = false},
    {.kind = kForward,
     .name = "Forward",
     .spent = TimeSpent::kForward,
     .micro_batch = Takes::kYes,
     .replayed = true,
     .trains = false,
     .takes_from = Channel::kActivations},
    {.kind = kRecompute,
     .name = "Recompute",
     .spent = TimeSpent::kRecompute,
     .micro_batch = Takes::kYes,
     .replayed = true},
    {.kind = kBackward,
     .name = "Backward",
     .spent = TimeSpent::kBackward,
     .micro_batch = Takes::kYes,
     .consumes_tape = true,
     .sums_gradient = true,
     .replayed = true,
     .takes_from = Channel::kGradients},
    {.kind = kBackwardInput,
     .name = "BackwardInput",
     .spent = TimeSpent::kBackward,
     .micro_batch = Takes::kYes,
     .consumes_tape = true,
     .replayed = true,
     .takes_from = Channel::kGradients},
    {.kind = kBackwardWeight,
     .name = "BackwardWeight",
     .spent = TimeSpent::kBackwardWeight,
     .micro_batch = Takes::kYes,
     .sums_gradient = true,
     .replayed = true},
    {.kind = kSumChunks,
     .name = "SumChunks",
     .scope = Scope::kTensor,
     .micro_batch = Takes::kYes,
     .replayed = true,
     .trains = false},
    {.kind = kReduceScatterSequence,
     .name = "ReduceScatterSequence",
     .scope = Scope::kTensor,
     .micro_batch = Takes::kYes,
     .replayed = true,
     .trains = false},
    {.kind = kGatherSequence,
     .name = "GatherSequence",
     .scope = Scope::kTensor,
     .micro_batch = Takes::kYes,
     .replayed = true,
     .trains = false},
    {.kind = kReduceGradInHost,
     .name = "ReduceGradInHost",
     .scope = Scope::kHost,
     .micro_batch = Takes::kMaybe},
    {.kind = kReduceGrad, .name = "ReduceGrad", .scope = Scope::kData, .micro_batch = Takes::kMaybe},
    {.kind = kGatherGrad, .name = "GatherGrad", .scope = Scope::kData},
    {.kind = kGatherGradInHost, .name = "GatherGradInHost", .scope = Scope::kHost},
    {.kind = kSendActivation,
     .name = "SendActivation",
     .micro_batch = Takes::kYes,
     .replayed = true,
     .trains = false,
     .direction = Direction::kSend,
     .channel = Channel::kActivations,
     .counterpart = kRecvActivation,
     .counterpart_offset = 1},
    {.kind = kRecvActivation,
     .name = "RecvActivation",
     .micro_batch = Takes::kYes,
     .replayed = true,
     .trains = false,
     .direction = Direction::kReceive,
     .channel = Channel::kActivations,
     .counterpart = kSendActivation,
     .counterpart_offset = -1},
    {.kind = kSendGradient,
     .name = "SendGradient",
     .micro_batch = Takes::kYes,
     .replayed = true,
     .direction = Direction::kSend,
     .channel = Channel::kGradients,
     .counterpart = kRecvGradient,
     .counterpart_offset = -1},
    {.kind = kRecvGradient,
     .name = "RecvGradient",
     .micro_batch = Takes::kYes,
     .replayed = true,
     .direction = Direction::kReceive,
     .channel = Channel::kGradients,
     .counterpart = kSendGradient,
     .counterpart_offset = 1},
    {.kind = kSendTiedGradient,
     .name = "SendTiedGradient",
     .direction = Direction::kSend,
     .channel = Channel::kTied,
     .counterpart = kRecvTiedGradient},
    {.kind = kRecvTiedGradient,
     .name = "RecvTiedGradient",
     .direction = Direction::kReceive,
     .channel = Channel::kTied,
     .counterpart = kSendTiedGradient},
    {.kind = kSendTiedParameters,
     .name = "SendTiedParameters",
     .trains = false,
     .direction = Direction::kSend,
     .channel = Channel::kTied,
     .counterpart = kRecvTiedParameters},
    {.kind = kRecvTiedParameters,
     .name = "RecvTiedParameters",
     .trains = false,
     .direction = Direction::kReceive,
     .channel = Channel::kTied,
     .counterpart = kSendTiedParameters},
    {.kind = kReduceLoss, .name = "ReduceLoss", .scope = Scope::kWorld, .unit = Takes::kNo, .trains = false},
    {.kind = kGradNorm, .name = "GradNorm", .spent = TimeSpent::kUpdate, .unit = Takes::kNo},
    {.kind = kGatherNorms, .name = "GatherNorms", .scope = Scope::kData, .unit = Takes::kNo},
    {.kind = kGatherChunkNorms, .name = "GatherChunkNorms", .scope = Scope::kTensor, .unit = Takes::kNo},
    {.kind = kBroadcastNorms, .name = "BroadcastNorms", .scope = Scope::kPipeline, .unit = Takes::kNo},
    {.kind = kClipGrad, .name = "ClipGrad", .spent = TimeSpent::kUpdate, .unit = Takes::kNo},
    {.kind = kOptimStep, .name = "OptimStep", .spent = TimeSpent::kUpdate},
    {.kind = kGatherUpdated, .name = "GatherUpdated", .scope = Scope::kData, .trains = false},
    {.kind = kGatherUpdatedInHost, .name = "GatherUpdatedInHost", .scope = Scope::kHost, .trains = false},
    {.kind = kSwapAverages, .name = "SwapAverages", .spent = TimeSpent::kUpdate, .trains = false},
    {.kind = kReduceStatistics, .name = "ReduceStatistics", .scope = Scope::kData, .unit = Takes::kNo},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kTraits.size(); ++i) {
    if (static_cast<std::size_t>(kTraits[i].kind) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

}  // namespace

std::string_view name(TimeSpent spent) {
  constexpr std::array<std::string_view, kNumTimeSpent> kNames = {
      "forward", "recompute", "backward", "weight gradient", "communication", "update"};
  return kNames[static_cast<std::size_t>(spent)];
}

const ActionTraits& traits(ActionKind kind) {
  return kTraits[static_cast<std::size_t>(kind)];
}

ActionKind action_of(TensorCall call) {
  constexpr std::array kKinds{kSumChunks, kReduceScatterSequence, kGatherSequence};
  return kKinds[static_cast<std::size_t>(call)];
}

bool is_tensor_call(ActionKind kind) {
  return traits(kind).scope == Scope::kTensor && traits(kind).unit == Takes::kYes;
}

Action counterpart(const Action& message, int rank) {
  const ActionTraits& facts = traits(message.kind);
  return {.kind = facts.counterpart,
          .unit = message.unit + facts.counterpart_offset,
          .micro_batch = message.micro_batch,
          .peer = rank};
}

std::string to_string(const Action& action) {
  std::string text(name(action.kind));
  if (action.unit >= 0) text += fmt::format(" unit {}", action.unit);
  if (action.micro_batch >= 0) text += fmt::format(" micro-batch {}", action.micro_batch);
  if (action.peer >= 0) text += fmt::format(" peer {}", action.peer);
  if (action.kind == kForward && action.keep == Keep::kInput) text += " keeping its input";
  if (action.kind == kForward && action.keep == Keep::kNothing) text += " keeping nothing";
  return text;
}

}  // namespace trireme
