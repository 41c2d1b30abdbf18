// A card's memory for one rank: segments from cudaMalloc, cut into blocks that are reused.
//
// [Note: stream-ordered reuse] A block is handed out again as soon as the host has freed it, though kernels
// that use it may still run. That is right because all work of a rank on its memory is ordered by its compute
// stream: a new owner's kernels are enqueued behind the old one's. Streams of communicators keep their
// tensors alive until the compute stream waits for them (see Work in parallel/comm/communicator.h).
#pragma once

#include <memory>

#include "runtime/base/allocator.h"

namespace trireme::cuda {

/// Best fit among free blocks, split and merged with their neighbours. When the card is full, segments that
/// are wholly free go back to it before allocate() returns nullptr, unless keep() says otherwise.
std::unique_ptr<MemorySource> make_memory_source(Device device);

/// Of the card, for all processes.
std::int64_t free_bytes(Device device);

}  // namespace trireme::cuda
