// The kinds of actions of which a rank's step is made, with one table of facts about them.
//
// Planner, validator, executor, printer and simulation read the table. A new kind is a row of it, a function
// of the executor, and the rule that writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/tensor_axis.h"

namespace trireme {

enum class ActionKind : std::uint8_t {
  // On a data axis of two levels ([Note: two levels] in layout/data_axis.h) every exchange over it has two
  // halves. What is reduced is reduced inside of each host first, and then over the hosts; what is gathered
  // is gathered over the hosts first, and then inside of each. The half inside of a host is an action of its
  // own, with InHost in its name. Of the exchanges below, GatherNorms has both halves in one action, and that
  // of statistics has one level.
  kGather,          // make the unit's parameters resident from their shards (FSDP: unshard, all-gather)
  kGatherInHost,    // the second half of it
  kRelease,         // drop the gathered parameters again (FSDP: reshard)
  kForward,         // run the unit on a micro-batch
  kRecompute,       // run it again, from its kept input or after the unit before it, to rebuild what backward
                    // needs (activation checkpointing)
  kBackward,        // consumes what the forward left; adds into the unit's gradient partial sums
  kBackwardInput,   // the same in two parts: consumes what the forward left, for the gradient of the unit's
                    // input
  kBackwardWeight,  // consumes what that left, without the parameters; adds into the partial sums
  kSumChunks,  // add what the tensor chunks of the unit return, or their gradients of what they read, over
               // the tensor ranks: a part of the Forward, Recompute or Backward before it
  // Parts of it as well, where the tensor ranks share the sequence: [Note: sequence shards].
  kReduceScatterSequence,  // such a sum, of which each rank gets its rows
  kGatherSequence,         // all rows of what each rank has its shard of
  kReduceGradInHost,       // the first half of a ReduceGrad
  kReduceGrad,        // add the unit's gradient over the data ranks, of one micro-batch each or of the whole
                      // step; each rank has its piece of the sum (a reduce-scatter)
  kGatherGrad,        // give every data rank all pieces of the sum (ZeRO-0), with all uses of what is tied
  kGatherGradInHost,  // the second half of it; with the library's sum, which every host has a part of on each
                      // rank, all of it
  // Messages between stages.
  kSendActivation,  // output of the unit, to the rank that runs the next
  kRecvActivation,  // input of the unit: posted here, complete when its Forward needs it
  kSendGradient,    // gradient of the unit's input, to the rank that runs the one before
  kRecvGradient,    // gradient of the unit's output, the same way
  // Of parameters that units of two stages use. See [Note: tied over stages].
  kSendTiedGradient,    // of the unit's uses, to the stage that owns the parameters
  kRecvTiedGradient,    // on that stage: posted here, added by GatherGrad or GradNorm
  kSendTiedParameters,  // of the unit that declares them, updated, to a stage that uses them
  kRecvTiedParameters,  // on that stage
  // The end of a step.
  kReduceLoss,        // the step's loss from all micro-batches' losses
  kGradNorm,          // finish the sums of gradients; squares of what this rank has of them, block by block
  kGatherNorms,       // those of the other data ranks' pieces (ZeRO-1 to 3)
  kGatherChunkNorms,  // those of the other tensor ranks' chunks
  kBroadcastNorms,    // those of the other stages' parameters
  kClipGrad,          // norm, clip coefficient, whether the step is skipped, and the next loss scale
  kOptimStep,         // update what this rank owns of the unit's parameters
  kGatherUpdated,     // bring the unit's working copy up to date from the data ranks' pieces (ZeRO-1 and 2;
                      // all-gather)
  kGatherUpdatedInHost,  // the second half of it
  kSwapAverages,         // exchange the unit's parameters with their averages: around an evaluation of these,
                         // before what brings working copies up to date. See [Note: averages]
  kReduceStatistics,     // move the running statistics of the stage by those of all its micro-batches
};
inline constexpr int kNumActionKinds = static_cast<int>(ActionKind::kReduceStatistics) + 1;

/// The ranks that take part in an action.
enum class Scope : std::uint8_t {
  kRank,      // the rank alone, or a pair
  kData,      // the ranks of its stage and tensor place: the data axis
  kHost,      // those of them on its host, where the data axis has two levels
  kTensor,    // the ranks that share its micro-batches: the tensor axis
  kPipeline,  // the ranks with its coordinates in all stages: the pipeline axis
  kWorld,
};

/// The work that an action spends its time with.
enum class TimeSpent : std::uint8_t {
  kForward,
  kRecompute,
  kBackward,        // both gradients, or that of the input where they run separately
  kBackwardWeight,  // the parameters' gradient, where it runs on its own
  kExchange,        // may overlap the rank's other work
  kUpdate,          // gradient norm and optimizer
};
inline constexpr int kNumTimeSpent = static_cast<int>(TimeSpent::kUpdate) + 1;

/// "forward", "weight gradient" ...
std::string_view name(TimeSpent spent);

enum class Direction : std::uint8_t { kNone, kSend, kReceive };

/// Messages from rank to rank keep their order on a channel. See [Note: channels of a plan].
enum class Channel : std::uint8_t { kNone, kActivations, kGradients, kTied };

/// The columns `unit` and `micro_batch`: if an action has one.
enum class Takes : std::uint8_t { kNo, kMaybe, kYes };

struct ActionTraits {
  ActionKind kind;
  std::string_view name;
  Scope scope = Scope::kRank;
  TimeSpent spent = TimeSpent::kExchange;
  Takes unit = Takes::kYes;
  Takes micro_batch = Takes::kNo;
  bool consumes_tape = false;  // what a forward left: the backward of the unit's input
  bool sums_gradient = false;  // of parameters
  bool replayed = false;       // by a replay, which only looks at gradients: neither sums nor updates
  bool trains = true;          // false: in evaluation, too
  Direction direction = Direction::kNone;
  Channel takes_from =
      Channel::kNone;  // waits for the message of its unit and micro-batch, where there is one
  Channel channel = Channel::kNone;
  // Of a message:
  ActionKind counterpart{};    // what the peer does
  int counterpart_offset = 0;  // its unit less this action's
};

const ActionTraits& traits(ActionKind kind);

inline std::string_view name(ActionKind kind) {
  return traits(kind).name;
}
inline bool is_send(ActionKind kind) {
  return traits(kind).direction == Direction::kSend;
}
inline bool is_receive(ActionKind kind) {
  return traits(kind).direction == Direction::kReceive;
}
inline bool is_collective(ActionKind kind) {
  return traits(kind).scope != Scope::kRank;
}
/// The action of a call that a block makes, behind the action of the block.
ActionKind action_of(TensorCall call);
/// True of those.
bool is_tensor_call(ActionKind kind);
/// True if it runs the unit's block.
inline bool computes(ActionKind kind) {
  return traits(kind).spent != TimeSpent::kExchange && traits(kind).spent != TimeSpent::kUpdate;
}

/// The activations that a Forward leaves behind for the backward of its unit.
enum class Keep : std::uint8_t {
  kTape,     // everything backward needs
  kInput,    // only the unit's input: the first of a segment that is recomputed
  kNothing,  // evaluation, and the rest of a segment that is recomputed
};

/// Units are blocks of the model, in order.
struct Action {
  ActionKind kind = ActionKind::kForward;
  int unit = -1;            // -1: the whole model, or this rank's part of it
  int micro_batch = -1;     // of this rank; -1: not tied to one
  int peer = -1;            // rank, for sends and receives
  Keep keep = Keep::kTape;  // of a Forward
  bool operator==(const Action&) const = default;
};

/// The action of the peer of a send or receive of `rank`.
Action counterpart(const Action& message, int rank);

/// "Forward unit 3 micro-batch 1".
std::string to_string(const Action& action);

}  // namespace trireme
