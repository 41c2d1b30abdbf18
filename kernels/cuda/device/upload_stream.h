// Large copies to the card, such as batches of images, concurrent with the compute stream.
//
// [Note: uploads] To overlap with computation, a copy must not wait for earlier work on the compute stream.
// But its destination may be in use until then, because memory is reused in the order of the compute stream
// ([Note: stream-ordered reuse]). So the bytes first go to a buffer on the card that belongs to the upload,
// as soon as the host has them. From there, a copy on the card in the order of the compute stream moves them
// to their destination. That costs two passes over the card's memory per batch, but hides the transfer over
// the bus. The host does not wait either: it copies the bytes into page-locked memory. All threads of the
// rank take part, since one thread is slower than the bus. There are buffers for a whole batch of up to 256
// MiB, so that a copy need not wait for the step that uses them. If the host is further ahead of the card
// than all buffers, it waits for the oldest buffer, not for the stream.
//
// Not used while a step is recorded, because the upload's own stream is not part of the recording.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/device/slot_ring.h"
#include "runtime/base/buffer.h"

namespace trireme::cuda {

class UploadStream {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  /// Number of buffers. The largest copy so far decides, within these limits.
  static constexpr std::size_t kLeastPieces = 16, kMaxPieces = 64;

  /// The buffers on the card count as MemoryCategory::kWorkspace of `allocator`.
  explicit UploadStream(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}

  /// Makes all buffers that a copy of up to `bytes` bytes may need.
  void prepare(std::size_t bytes, cudaStream_t compute);
  /// Copies `bytes` to the card, in the order of `compute`. Up to `num_threads` threads read `src`, which may
  /// change after this returns. Wait for `compute` before this object is destroyed, which frees the buffers.
  void copy_to_device(void* dst, const void* src, std::size_t bytes, int num_threads, cudaStream_t compute);

 private:
  struct Slot {
    PinnedMemory host;
    Buffer card;
    Event arrived;  // `host` has been copied to `card`
    Event done;     // `card` has been copied to its destination
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
