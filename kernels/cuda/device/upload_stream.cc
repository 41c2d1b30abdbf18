#include "kernels/cuda/device/upload_stream.h"

#include <algorithm>
#include <cstring>

namespace trireme::cuda {

UploadStream::Slot UploadStream::make_slot(cudaStream_t compute) {
  Slot slot{.host = PinnedMemory(kPieceBytes),
            .card = Buffer(allocator_, kPieceBytes, MemoryCategory::kWorkspace),
            .arrived = {},
            .done = {}};
  // The memory is new to this stream alone: what used it before may still run.
  slot.arrived.record(compute);
  slot.arrived.make_wait(stream_.get());
  return slot;
}

void UploadStream::copy_to_device(void* dst, const void* src, std::size_t bytes, cudaStream_t compute) {
  for (std::size_t first = 0; first < bytes; first += kPieceBytes) {
    const std::size_t piece = std::min(kPieceBytes, bytes - first);
    Slot& slot = slots_.acquire([&] { return make_slot(compute); });
    std::memcpy(slot.host.data(), static_cast<const std::byte*>(src) + first, piece);
    check(cudaMemcpyAsync(slot.card.data(), slot.host.data(), piece, cudaMemcpyHostToDevice, stream_.get()),
          "copy to the card");
    slot.arrived.record(stream_.get());
    slot.arrived.make_wait(compute);
    check(cudaMemcpyAsync(static_cast<std::byte*>(dst) + first, slot.card.data(), piece,
                          cudaMemcpyDeviceToDevice, compute),
          "copy on the card");
    slot.done.record(compute);
  }
}

}  // namespace trireme::cuda
