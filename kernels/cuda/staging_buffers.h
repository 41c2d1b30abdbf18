// Page-locked host memory through which small copies to the card go, so that the host need not wait for the
// stream before it reuses the source.
#pragma once

#include <cstddef>
#include <list>

#include "kernels/cuda/handle.h"

namespace trireme::cuda {

class StagingBuffers {
 public:
  StagingBuffers() = default;
  ~StagingBuffers();
  StagingBuffers(const StagingBuffers&) = delete;
  StagingBuffers& operator=(const StagingBuffers&) = delete;

  /// Larger copies are worth the wait, and page-locked memory is dear.
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  /// Copies `bytes` <= kMaxBytes to the card, in order of `stream`; `src` may change when this returns.
  void copy_to_device(void* dst, const void* src, std::size_t bytes, cudaStream_t stream);

 private:
  struct Slot {
    void* data = nullptr;
    std::size_t bytes = 0;
    Event done;
  };
  static constexpr std::size_t kMaxSlots = 32;

  Slot& acquire(std::size_t bytes);

  std::list<Slot> slots_;  // in order of their last use, the oldest first
};

}  // namespace trireme::cuda
