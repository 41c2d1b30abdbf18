#include "kernels/cuda/device/upload_stream.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace trireme::cuda {

UploadStream::Slot UploadStream::make_slot(cudaStream_t compute) {
  Slot slot{.host = PinnedMemory(kPieceBytes),
            .card = Buffer(allocator_, kPieceBytes, MemoryCategory::kWorkspace),
            .arrived = {},
            .done = {}};
  // The memory is new only to this stream; earlier work that used it may still run.
  slot.arrived.record(compute);
  slot.arrived.make_wait(stream_.get());
  return slot;
}

void UploadStream::allow_for(std::size_t bytes) {
  slots_.allow(std::min(kMaxPieces, (bytes + kPieceBytes - 1) / kPieceBytes));
}

void UploadStream::prepare(std::size_t bytes, cudaStream_t compute) {
  allow_for(bytes);
  slots_.fill([&] { return make_slot(compute); });
}

// Copies as many pieces at a time as there are threads. The host reads run in parallel; the uploads are
// enqueued in order.
void UploadStream::copy_to_device(void* dst, const void* src, std::size_t bytes, int num_threads,
                                  cudaStream_t compute) {
  allow_for(bytes);
  const std::size_t at_once = std::clamp<std::size_t>(static_cast<std::size_t>(num_threads), 1, kLeastPieces);
  std::vector<Piece> pieces;
  for (std::size_t first = 0; first < bytes;) {
    pieces.clear();
    for (; first < bytes && pieces.size() < at_once; first += kPieceBytes) {
      Slot& slot = slots_.acquire([&] { return make_slot(compute); }, pieces.size());
      pieces.push_back({&slot, first, std::min(kPieceBytes, bytes - first)});
    }
    read(pieces, static_cast<const std::byte*>(src));
    for (const Piece& piece : pieces) enqueue(piece, static_cast<std::byte*>(dst), compute);
  }
}

void UploadStream::read(const std::vector<Piece>& pieces, const std::byte* src) {
  const auto read_one = [src](const Piece& piece) {
    std::memcpy(piece.slot->host.data(), src + piece.first, piece.bytes);
  };
  std::vector<std::jthread> others;  // joined on destruction
  others.reserve(pieces.size());
  for (std::size_t i = 1; i < pieces.size(); ++i) others.emplace_back(read_one, pieces[i]);
  read_one(pieces.front());
}

void UploadStream::enqueue(const Piece& piece, std::byte* dst, cudaStream_t compute) {
  Slot& slot = *piece.slot;
  check(
      cudaMemcpyAsync(slot.card.data(), slot.host.data(), piece.bytes, cudaMemcpyHostToDevice, stream_.get()),
      "copy to the card");
  slot.arrived.record(stream_.get());
  slot.arrived.make_wait(compute);
  check(cudaMemcpyAsync(dst + piece.first, slot.card.data(), piece.bytes, cudaMemcpyDeviceToDevice, compute),
        "copy on the card");
  slot.done.record(compute);
}

}  // namespace trireme::cuda
