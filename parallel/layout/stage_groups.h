// The parameter groups that a pipeline stage holds, and the exchanges between stages that share a parameter.
//
// [Note: tied over stages] The stage whose block declares a parameter owns its group: master, optimizer state
// and gradient sum. A stage where another block uses it holds a working copy. In backward that stage sums the
// gradient of its use over its data ranks and sends it to the owner, which adds the uses in block order, as
// without a pipeline. After the update the owner sends the new working copy back. Each data rank exchanges
// its own piece with the rank of the same data coordinate on the other stage.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/comm/message_channel.h"
#include "parallel/layout/model_layout.h"
#include "parallel/layout/stage_map.h"

namespace trireme {

/// Tags of messages on the pipeline axis.
enum StageTag : int { kActivationTag, kGradientTag, kTiedTag };

/// The channels between stages that a step's messages take, each once; ranks are stages. Channels that start
/// at even stages come first, so that neighbours need not wait for each other when channels are opened one by
/// one.
std::vector<MessageChannel> channels_between_stages(const StageMap& stages,
                                                    const std::vector<TiedUnits>& ties);

enum class Holding : std::uint8_t {
  kNothing,
  kCopy,  // a working copy, for a use of a parameter that another stage owns
  kOwned,
};

/// The unit that declares a group's parameters; for a merged group, the first.
int owner_unit(const ModelLayout& layout, int group);

/// The holding of each group on a stage, by group.
std::vector<Holding> holdings_of_stage(const ModelLayout& layout, const StageMap& stages, int stage);

/// Each pair once, ordered by user.
std::vector<TiedUnits> ties_between_stages(const ModelLayout& layout, const StageMap& stages);

/// Ties of trained parameters: a step exchanges their gradients and new values.
std::vector<TiedUnits> trained_ties(const ModelLayout& layout, const StageMap& stages);

/// The buckets of `user`'s gradients of the parameters that `tie` shares.
std::vector<int> tied_buckets(const ModelLayout& layout, const TiedUnits& tie);

}  // namespace trireme
