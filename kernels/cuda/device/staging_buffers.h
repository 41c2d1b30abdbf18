// Page-locked host memory through which small copies to the card go, so that the host need not wait for the
// stream before it reuses the source.
#pragma once

#include <cstring>

#include "kernels/cuda/device/slot_ring.h"

namespace trireme::cuda {

class StagingBuffers {
 public:
  /// Larger copies are worth a stream of their own (upload_stream.h).
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 10;

  /// Makes all buffers that copies may need.
  void prepare() {
    slots_.fill([] { return Slot{}; });
  }
  /// Copies `bytes` <= kMaxBytes to the card, in order of `stream`; `src` may change when this returns.
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
