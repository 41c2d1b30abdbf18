#include "kernels/cuda/staging_buffers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trireme::cuda {

StagingBuffers::~StagingBuffers() {
  for (const Slot& slot : slots_) check_noexcept(cudaFreeHost(slot.data), "cudaFreeHost");
}

StagingBuffers::Slot& StagingBuffers::acquire(std::size_t bytes) {
  auto slot = std::find_if(slots_.begin(), slots_.end(),
                           [&](const Slot& s) { return s.bytes >= bytes && s.done.passed(); });
  if (slot == slots_.end() && slots_.size() >= kMaxSlots) {
    // The host is far ahead of the card: wait for the oldest copy, and let go of its buffer if it is too
    // small.
    slots_.front().done.wait();
    slot = slots_.begin();
    if (slot->bytes < bytes) {
      check(cudaFreeHost(slot->data), "cudaFreeHost");
      slots_.pop_front();
      slot = slots_.end();
    }
  }
  if (slot != slots_.end()) {
    slots_.splice(slots_.end(), slots_, slot);
    return slots_.back();
  }
  constexpr std::size_t kLeast = 4096;
  Slot fresh;
  fresh.bytes = std::max(kLeast, bytes);
  check(cudaMallocHost(&fresh.data, fresh.bytes), "cudaMallocHost");
  return slots_.emplace_back(std::move(fresh));
}

void StagingBuffers::copy_to_device(void* dst, const void* src, std::size_t bytes, cudaStream_t stream) {
  Slot& slot = acquire(bytes);
  std::memcpy(slot.data, src, bytes);
  check(cudaMemcpyAsync(dst, slot.data, bytes, cudaMemcpyHostToDevice, stream), "copy to the card");
  slot.done.record(stream);
}

}  // namespace trireme::cuda
