// Which keys of a job would make it need less memory: what a failed allocation cannot know.
#pragma once

#include <string>

#include "launcher/config/config.h"
#include "runtime/base/allocator.h"

namespace trireme {

/// The keys that reduce the largest categories of `needed`, largest first, with values that `config` does not
/// have yet: "train.micro_batch = 4 or parallel.recompute_every = 1 would reduce activations (1.20 GiB);
/// ...". Categories below a tenth of the whole are not worth a key.
std::string describe_remedies(const MemoryCounts& needed, const JobConfig& config, int num_ranks);

}  // namespace trireme
