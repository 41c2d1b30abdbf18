// Batches read in parts, by several threads.
#pragma once

#include <vector>

#include "runtime/data/prefetch.h"

namespace trireme {

/// Cuts a request at multiples of `samples_per_read`; 0: not at all.
std::vector<BatchRequest> split_request(const BatchRequest& request, std::int64_t samples_per_read);

/// One batch of all samples, in order. The parts are of one kind; one part alone is returned as it is.
HostBatch join_batches(std::vector<HostBatch> parts);

}  // namespace trireme
