// Resolves "auto" of parallel.accumulate_unsharded and keep_gathered: what ranks keep across the
// micro-batches of a step to communicate less, if it fits in memory. See [Note: order of accumulation].
#pragma once

#include <memory>

#include "launcher/config/config.h"
#include "launcher/job/memory_fit.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// Returns the job with values for "auto". If the limit does not come from parallel.memory_limit, one eighth
/// of it stays free for libraries and other users of the machine, which predictions do not count.
JobConfig with_accumulation(JobConfig config, const std::shared_ptr<const BlockList>& blocks, int num_ranks,
                            const MemoryLimit& limit);

/// Collective. The same on every rank: rank 0 chooses within the smallest `limit` of all ranks.
JobConfig with_accumulation(JobConfig config, const std::shared_ptr<const BlockList>& blocks,
                            const std::shared_ptr<Communicator>& comm, const MemoryLimit& limit);

/// "gradients are reduced once a step, parameters gathered once a step", or how often each happens; empty if
/// both keys make no difference.
std::string describe_accumulation(const EngineOptions& options, int num_ranks);

/// Micro-batches per data rank: "3", or "2 or 3" if the ranks have unequal numbers.
std::string num_accumulated(const BatchLayout& batch);

}  // namespace trireme
