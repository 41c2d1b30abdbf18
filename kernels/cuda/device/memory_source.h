// A card's memory for one rank: segments from cudaMalloc, split into blocks that are reused.
//
// [Note: stream-ordered reuse] A block is reused as soon as the host has freed it, even if kernels that use
// it are still running. This is safe because all work of a rank on its memory is ordered by its compute
// stream: a new owner's kernels are enqueued behind the old owner's. Communicators with their own streams
// keep tensors alive until the compute stream has waited for them (see Work in parallel/comm/communicator.h).
#pragma once

#include <memory>

#include "runtime/base/allocator.h"

namespace trireme::cuda {

/// Best fit among free blocks, which are split and merged with their neighbours. When the card is full,
/// completely free segments are returned to it before allocate() returns nullptr, unless keep() is active.
std::unique_ptr<MemorySource> make_memory_source(Device device);

/// Free memory of the card, shared by all processes.
std::int64_t free_bytes(Device device);

}  // namespace trireme::cuda
