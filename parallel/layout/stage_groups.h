// The groups of parameters that a stage of the pipeline holds, and the exchanges of stages with a common
// parameter.
//
// [Note: tied over stages] The stage whose block declares a parameter owns its group: master, optimizer state
// and the sum of its gradient. A stage where another block uses it holds a working copy. In backward that
// stage sums the gradient of its use over its data ranks and sends it to the owner, who adds the uses in
// block order, as without a pipeline; after the update the owner sends the new working copy back. Each data
// rank talks to the one with its own place in the other stage, about the piece that it owns.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/comm/message_channel.h"
#include "parallel/layout/model_layout.h"
#include "parallel/layout/stage_map.h"

namespace trireme {

/// Tags of messages on the pipeline axis.
enum StageTag : int { kActivationTag, kGradientTag, kTiedTag };

/// The channels between stages that a step's messages take; ranks are stages. Each once; those that start at
/// even stages come first, so that neighbours need not wait for each other when channels are opened one by
/// one.
std::vector<MessageChannel> channels_between_stages(const StageMap& stages,
                                                    const std::vector<TiedUnits>& ties);

enum class Holding : std::uint8_t {
  kNothing,
  kCopy,  // a working copy, for a use of a parameter that another stage owns
  kOwned,
};

/// The unit that declares a group's parameters; of a merged group, the first.
int owner_unit(const ModelLayout& layout, int group);

/// By group, what a stage holds.
std::vector<Holding> holdings_of_stage(const ModelLayout& layout, const StageMap& stages, int stage);

/// Each pair once, by user.
std::vector<TiedUnits> ties_between_stages(const ModelLayout& layout, const StageMap& stages);

/// Those of parameters that are trained: a step exchanges their gradients and new values.
std::vector<TiedUnits> trained_ties(const ModelLayout& layout, const StageMap& stages);

/// The pair of two tied units: buckets of `user`'s gradients, and their groups.
std::vector<int> tied_buckets(const ModelLayout& layout, const TiedUnits& tie);

}  // namespace trireme
