// Large copies to the card, such as batches of images, beside the compute stream.
//
// [Note: uploads] A copy overlaps with computing only if it does not wait for what the compute stream has
// been given before it. But the memory that it is for may be in use until then, since memory is reused in the
// order of the compute stream ([Note: stream-ordered reuse]). So the bytes go to a buffer on the card that
// belongs to the upload, as soon as the host has them, and from there to their place by a copy on the card in
// the order of the compute stream: two passes over the card's memory for a batch, where waiting would cost
// its way over the bus. The host waits for nothing either: it hands the bytes over in page-locked memory.
// Only when it is more than all buffers ahead of the card it waits for the oldest of them, not for the
// stream.
//
// Not while a step is recorded: the upload's own stream is not.
#pragma once

#include <memory>

#include "kernels/cuda/device/slot_ring.h"
#include "runtime/base/buffer.h"

namespace trireme::cuda {

class UploadStream {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  static constexpr std::size_t kMaxPieces = 16;

  /// The buffers on the card are MemoryCategory::kWorkspace of `allocator`.
  explicit UploadStream(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}

  /// Makes all buffers that copies may need.
  void prepare(cudaStream_t compute) {
    slots_.fill([&] { return make_slot(compute); });
  }
  /// Copies `bytes` to the card, in the order of `compute`; `src` may change when this returns. The stream
  /// that frees this object's buffers must have been waited for.
  void copy_to_device(void* dst, const void* src, std::size_t bytes, cudaStream_t compute);

 private:
  struct Slot {
    PinnedMemory host;
    Buffer card;
    Event arrived;  // on the card
    Event done;     // at its place
  };
  Slot make_slot(cudaStream_t compute);

  const std::shared_ptr<Allocator> allocator_;
  StreamHandle stream_;
  SlotRing<Slot> slots_{kMaxPieces};
};

}  // namespace trireme::cuda
