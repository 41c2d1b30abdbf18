// A training step as data: for each rank, a list of actions. Why: README.md beside this file.
//
// A plan can be read, printed, diffed, priced (played on the meta device) and proved (validate.h) before
// anything runs. Units are blocks of the model, in order; micro_batch counts the micro-batches of this rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/layout/stage_map.h"
#include "parallel/mesh/mesh.h"

namespace trireme {

enum class ActionKind : std::uint8_t {
  kGather,          // collective: make the unit's parameters resident from their shards
  kRelease,         // drop the gathered parameters again
  kForward,         // run the unit on a micro-batch
  kRecompute,       // run it again, from its kept input or after the unit before it, to rebuild what backward
                    // needs
  kBackward,        // consumes what the forward left; adds into the unit's gradient partial sums
  kBackwardInput,   // the same in two parts: consumes what the forward left, for the gradient of the unit's
                    // input
  kBackwardWeight,  // consumes what that left, without the parameters; adds into the partial sums
  kReduceGrad,  // collective: add the unit's gradient over all ranks, of one micro-batch each or of the whole
                // step
  kSendActivation,  // output of the unit, to the rank that runs the next
  kRecvActivation,  // input of the unit: from here on under way, and there when its Forward needs it
  kSendGradient,    // gradient of the unit's input, to the rank that runs the one before
  kRecvGradient,    // gradient of the unit's output, the same way
  // Of parameters that units of two stages use. See [Note: tied over stages].
  kSendTiedGradient,    // of the unit's uses, to the stage that owns the parameters
  kRecvTiedGradient,    // on that stage: under way from here on, added by GradNorm
  kSendTiedParameters,  // of the unit that declares them, updated, to a stage that uses them
  kRecvTiedParameters,  // on that stage
  kReduceLoss,          // collective: the step's loss from all micro-batches' losses
  kGradNorm,            // global gradient norm and clip coefficient (collective where gradients are sharded)
  kOptimStep,           // collective: update every parameter this rank owns, and move running statistics
};

std::string_view name(ActionKind kind);
/// Who takes part in an action.
enum class Scope : std::uint8_t {
  kRank,   // the rank, or a pair
  kStage,  // the ranks of its stage (the data axis)
  kWorld,
};
Scope scope(ActionKind kind);
inline bool is_collective(ActionKind kind) {
  return scope(kind) != Scope::kRank;
}

/// A backward consumes what a forward left, and sums gradients of parameters: in one action or in two.
inline bool consumes_tape(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}
inline bool sums_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

/// What a Forward leaves behind for the backward of its unit.
enum class Keep : std::uint8_t {
  kTape,     // everything backward needs
  kInput,    // only the unit's input: the first of a segment that is recomputed
  kNothing,  // evaluation, and the rest of a segment that is recomputed
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int unit = -1;            // -1: the whole model
  int micro_batch = -1;     // -1: not tied to one
  int peer = -1;            // rank, for sends and receives
  Keep keep = Keep::kTape;  // of a Forward
  bool operator==(const Action&) const = default;
};

/// "Forward unit 3 micro-batch 1".
std::string to_string(const Action& action);

struct RankPlan {
  std::vector<Action> actions;
  int send_window = 1;    // see [Note: what blocks]
  int micro_batches = 0;  // that every unit of its stage runs forward on; 0: the rank is idle, or nobody said
};

struct StepPlan {
  Mesh mesh;
  int num_units = 0;
  bool sharded_parameters = false;  // units start and end released (ZeRO-3)
  bool keeps_gathered = false;      // and are gathered once
  StageMap stages;                  // without bounds: all units on every rank
  std::vector<TiedUnits> ties;      // between stages
  std::vector<RankPlan> ranks;
};

}  // namespace trireme
