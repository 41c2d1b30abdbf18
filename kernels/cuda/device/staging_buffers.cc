#include "kernels/cuda/device/staging_buffers.h"

#include <cstring>

namespace trireme::cuda {

void StagingBuffers::copy_to_device(void* dst, const void* src, std::size_t bytes, cudaStream_t stream) {
  Slot& slot = slots_.acquire([] { return Slot{}; });
  std::memcpy(slot.memory.data(), src, bytes);
  check(cudaMemcpyAsync(dst, slot.memory.data(), bytes, cudaMemcpyHostToDevice, stream), "copy to the card");
  slot.done.record(stream);
}

}  // namespace trireme::cuda
