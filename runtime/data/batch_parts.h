// Batches read in parts by several threads.
#pragma once

#include <vector>

#include "runtime/data/prefetch.h"

namespace trireme {

/// Splits a request at multiples of `samples_per_read`; 0: no split.
std::vector<BatchRequest> split_request(const BatchRequest& request, std::int64_t samples_per_read);

/// One batch of all samples, in order. All parts are of one kind; a single part is returned unchanged.
HostBatch join_batches(std::vector<HostBatch> parts);

}  // namespace trireme
