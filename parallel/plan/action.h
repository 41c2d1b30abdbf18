// The kinds of actions in a rank's step, with one table of facts about them.
//
// Planner, validator, executor, printer and simulation read the table. A new kind needs a row in the table, a
// function of the executor, and a rule that writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/tensor_axis.h"

namespace trireme {

enum class ActionKind : std::uint8_t {
  // On a data axis of two levels ([Note: two levels] in layout/data_axis.h) every exchange over it has two
  // halves. A reduction runs inside each host first, then over the hosts; a gather runs over the hosts first,
  // then inside each host. The half inside a host is a separate action, with InHost in its name. There are
  // two exceptions below: GatherNorms has both halves in one action, and ReduceStatistics has one level.
  kGather,          // make the unit's parameters resident from their shards (FSDP: unshard, all-gather)
  kGatherInHost,    // the second half of Gather
  kRelease,         // drop the gathered parameters again (FSDP: reshard)
  kForward,         // run the unit on a micro-batch
  kRecompute,       // run the unit again, from its kept input or after the unit before it, to rebuild what
                    // backward needs (activation checkpointing)
  kBackward,        // consume the tape of the forward; add into the unit's gradient partial sums
  kBackwardInput,   // first part of a backward: consume the tape of the forward, for the gradient of the
                    // unit's input
  kBackwardWeight,  // second part: consume the tensors that the first part kept, without reading parameters;
                    // add into the partial sums
  kSumChunks,       // add the outputs of the unit's tensor chunks, or their input gradients, over the tensor
                    // ranks: a part of the preceding Forward, Recompute or Backward
  // Further parts of a Forward, Recompute or Backward, with sequence parallelism: [Note: sequence shards].
  kReduceScatterSequence,  // a SumChunks whose result is split: each rank gets its rows
  kGatherSequence,         // gather all rows of a sharded tensor
  kReduceGradInHost,       // the first half of ReduceGrad
  kReduceGrad,  // add the unit's gradient over the data ranks, for one micro-batch each or for the whole
                // step; each rank gets its piece of the sum (a reduce-scatter)
  kGatherGrad,  // give every data rank all pieces of the sum (ZeRO-0), with all uses of tied parameters
  kGatherGradInHost,  // the second half of GatherGrad; the whole gather if the library sums between hosts,
                      // since each rank of a host then has a part of the sum
  // Messages between stages.
  kSendActivation,  // output of the unit, to the rank that runs the next unit
  kRecvActivation,  // input of the unit: posted here, complete when its Forward needs it
  kSendGradient,    // gradient of the unit's input, to the rank that runs the previous unit
  kRecvGradient,    // gradient of the unit's output, likewise
  // For parameters that units of two stages use. See [Note: tied over stages].
  kSendTiedGradient,    // from a stage that uses the parameters, to the stage that owns them
  kRecvTiedGradient,    // on the owner: posted here, added by GatherGrad or GradNorm
  kSendTiedParameters,  // updated parameters, from the owner to a stage that uses them
  kRecvTiedParameters,  // on the stage that uses them
  // The end of a step.
  kReduceLoss,           // the step's loss from all micro-batches' losses
  kGradNorm,             // finish the sums of gradients; squared norms of this rank's part, block by block
  kGatherNorms,          // gather norms of the other data ranks' pieces (ZeRO-1 to 3)
  kGatherChunkNorms,     // gather norms of the other tensor ranks' chunks
  kBroadcastNorms,       // exchange norms between the stages
  kClipGrad,             // norm, clip coefficient, whether the step is skipped, and the next loss scale
  kOptimStep,            // update this rank's part of the unit's parameters
  kGatherUpdated,        // gather the unit's working copy from the data ranks' updated pieces (ZeRO-1 and 2;
                         // all-gather)
  kGatherUpdatedInHost,  // the second half of GatherUpdated
  kSwapAverages,  // exchange the unit's parameters with their averages, before and after an evaluation of the
                  // averages; working copies are updated afterwards. See [Note: averages]
  kReduceStatistics,  // update the running statistics of the stage from all its micro-batches
};
inline constexpr int kNumActionKinds = static_cast<int>(ActionKind::kReduceStatistics) + 1;

/// The ranks that take part in an action.
enum class Scope : std::uint8_t {
  kRank,      // the rank alone, or a pair
  kData,      // the ranks of its stage and tensor coordinate: the data axis
  kHost,      // the part of kData on its host, if the data axis has two levels
  kTensor,    // the ranks that share its micro-batches: the tensor axis
  kPipeline,  // the ranks with its coordinates in all stages: the pipeline axis
  kWorld,
};

/// The kind of work that an action's time is counted as.
enum class TimeSpent : std::uint8_t {
  kForward,
  kRecompute,
  kBackward,        // both gradients, or the input's if they run separately
  kBackwardWeight,  // the parameters' gradient, if it runs separately
  kExchange,        // may overlap the rank's other work
  kUpdate,          // gradient norm and optimizer
};
inline constexpr int kNumTimeSpent = static_cast<int>(TimeSpent::kUpdate) + 1;

/// "forward", "weight gradient" ...
std::string_view name(TimeSpent spent);

enum class Direction : std::uint8_t { kNone, kSend, kReceive };

/// Messages between two ranks keep their order within a channel. See [Note: channels of a plan].
enum class Channel : std::uint8_t { kNone, kActivations, kGradients, kTied };

/// Presence of the fields `unit` and `micro_batch` in actions of a kind.
enum class Takes : std::uint8_t { kNo, kMaybe, kYes };

struct ActionTraits {
  ActionKind kind;
  std::string_view name;
  Scope scope = Scope::kRank;
  TimeSpent spent = TimeSpent::kExchange;
  Takes unit = Takes::kYes;
  Takes micro_batch = Takes::kNo;
  bool consumes_tape = false;  // consumes the tape of a forward: the backward of the unit's input
  bool sums_gradient = false;  // of parameters
  bool replayed = false;       // runs in a replay, which only observes gradients and neither sums nor updates
  bool trains = true;          // false: runs in evaluation, too
  Direction direction = Direction::kNone;
  Channel takes_from =
      Channel::kNone;  // waits for a message of its unit and micro-batch on this channel, if there is one
  Channel channel = Channel::kNone;
  // For messages:
  ActionKind counterpart{};    // the action of the peer
  int counterpart_offset = 0;  // the counterpart's unit minus this action's
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
/// The action of a call that a block makes; it follows the action of the block.
ActionKind action_of(TensorCall call);
/// True for the actions that action_of() returns.
bool is_tensor_call(ActionKind kind);
/// True if the action runs the unit's block.
inline bool computes(ActionKind kind) {
  return traits(kind).spent != TimeSpent::kExchange && traits(kind).spent != TimeSpent::kUpdate;
}

/// The activations that a Forward keeps for the backward of its unit.
enum class Keep : std::uint8_t {
  kTape,     // everything backward needs
  kInput,    // only the unit's input: the first unit of a recomputed segment
  kNothing,  // in evaluation, and for the other units of a recomputed segment
};

/// Units are blocks of the model, in order.
struct Action {
  ActionKind kind = ActionKind::kForward;
  int unit = -1;            // -1: the whole model, or this rank's part of it
  int micro_batch = -1;     // of this rank; -1: not tied to one
  int peer = -1;            // rank, for sends and receives
  Keep keep = Keep::kTape;  // for a Forward
  bool operator==(const Action&) const = default;
};

/// The peer's action for a send or receive of `rank`.
Action counterpart(const Action& message, int rank);

/// "Forward unit 3 micro-batch 1".
std::string to_string(const Action& action);

}  // namespace trireme
