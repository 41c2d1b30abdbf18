// Page-locked staging buffers for small copies to the card. The host may reuse the source without waiting for
// the stream.
#pragma once

#include <cstring>

#include "kernels/cuda/device/slot_ring.h"

namespace trireme::cuda {

class StagingBuffers {
 public:
  /// Larger copies use a separate stream (upload_stream.h).
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 10;

  /// Makes all buffers that copies may need.
  void prepare() {
    slots_.fill([] { return Slot{}; });
  }
  /// Copies `bytes` <= kMaxBytes to the card, in the order of `stream`. `src` may change after this returns.
  void copy_to_device(void* dst, const void* src, std::size_t bytes, cudaStream_t stream) {
    Slot& slot = slots_.acquire([] { return Slot{}; });
    std::memcpy(slot.memory.data(), src, bytes);
    check(cudaMemcpyAsync(dst, slot.memory.data(), bytes, cudaMemcpyHostToDevice, stream),
          "copy to the card");
    slot.done.record(stream);
  }

 private:
  struct Slot {
    PinnedMemory memory{kMaxBytes};
    Event done;
  };
  SlotRing<Slot> slots_{32};
};

}  // namespace trireme::cuda
