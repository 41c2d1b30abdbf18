// Host memory for one rank, 64-byte aligned, with a cache of freed blocks.
#pragma once

#include <memory>

#include "runtime/base/allocator.h"

namespace trireme::cpu {

/// A step allocates the same sizes repeatedly, and fresh large blocks cost page faults. Freed blocks are
/// therefore cached by exact size until the source is destroyed or an allocation fails. Blocks from 16 KiB on
/// use huge pages where the system has them ([Note: small blocks] in block_chunks.h). Under AddressSanitizer
/// nothing is cached, so that it detects use after free.
std::unique_ptr<MemorySource> make_memory_source(Device device);

}  // namespace trireme::cpu
