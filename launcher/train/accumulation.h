// parallel.accumulate_unsharded and keep_gathered = "auto": what ranks keep over a step's micro-batches to
// send less, where it fits. See [Note: order of accumulation].
#pragma once

#include <memory>

#include "launcher/config/config.h"
#include "launcher/train/memory_fit.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// A resolved job with a value for "auto". Of a limit that is not parallel.memory_limit an eighth is left:
/// libraries, and whoever else the machine has, need some that no prediction counts.
JobConfig with_accumulation(JobConfig config, const std::shared_ptr<const BlockList>& blocks, int num_ranks,
                            const MemoryLimit& limit);

/// Collective. The same, chosen by rank 0 within the smallest `limit` of all ranks, on every rank.
JobConfig with_accumulation(JobConfig config, const std::shared_ptr<const BlockList>& blocks,
                            const std::shared_ptr<Communicator>& comm, const MemoryLimit& limit);

/// "gradients are reduced once a step, parameters gathered once a step", or as often as it is; empty where
/// both keys make no difference.
std::string describe_accumulation(const EngineOptions& options, int num_ranks);

/// Micro-batches of a data rank: "3", or "2 or 3" where they are unequally many.
std::string num_accumulated(const BatchLayout& batch);

}  // namespace trireme
