// Large copies to the card, such as batches of images, beside the compute stream.
//
// [Note: uploads] A copy overlaps with computing only if it does not wait for what the compute stream has
// been given before it. But the memory that it is for may be in use until then, since memory is reused in the
// order of the compute stream ([Note: stream-ordered reuse]). So the bytes go to a buffer on the card that
// belongs to the upload, as soon as the host has them, and from there to their place by a copy on the card in
// the order of the compute stream: two passes over the card's memory for a batch, where waiting would cost
// its way over the bus. The host waits for nothing either: it hands the bytes over in page-locked memory,
// with as many threads as the rank has, since one copies slower than the bus. There are buffers for a whole
// batch, of up to 256 MiB: a copy that found them in use would wait for the step that uses them. Only when
// the host is more than all buffers ahead of the card it waits for the oldest of them, not for the stream.
//
// Not while a step is recorded: the upload's own stream is not.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/device/slot_ring.h"
#include "runtime/base/buffer.h"

namespace trireme::cuda {

class UploadStream {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  /// Of buffers: as many as the largest copy so far wants, within these.
  static constexpr std::size_t kLeastPieces = 16, kMaxPieces = 64;

  /// The buffers on the card are MemoryCategory::kWorkspace of `allocator`.
  explicit UploadStream(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}

  /// Makes all buffers that copies of up to `bytes` bytes may need, one at a time.
  void prepare(std::size_t bytes, cudaStream_t compute);
  /// Copies `bytes` to the card, in the order of `compute`, read by up to `num_threads` threads; `src` may
  /// change when this returns. The stream that frees this object's buffers must have been waited for.
  void copy_to_device(void* dst, const void* src, std::size_t bytes, int num_threads, cudaStream_t compute);

 private:
  struct Slot {
    PinnedMemory host;
    Buffer card;
    Event arrived;  // on the card
    Event done;     // at its place
  };
  struct Piece {
    Slot* slot = nullptr;
    std::size_t first = 0, bytes = 0;
  };
  static void read(const std::vector<Piece>& pieces, const std::byte* src);
  void enqueue(const Piece& piece, std::byte* dst, cudaStream_t compute);
  Slot make_slot(cudaStream_t compute);
  void allow_for(std::size_t bytes);

  const std::shared_ptr<Allocator> allocator_;
  StreamHandle stream_;
  SlotRing<Slot> slots_{kLeastPieces};
};

}  // namespace trireme::cuda
