#include "kernels/cpu/memory/block_chunks.h"

#include <algorithm>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace trireme::cpu {

void* allocate_huge(std::size_t bytes) {
  void* data = nullptr;
  if (posix_memalign(&data, kHugePage, bytes) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  madvise(data, bytes, MADV_HUGEPAGE);  // refusal costs speed only
#endif
  return data;
}

BlockChunks::~BlockChunks() {
  for (const Chunk& chunk : chunks_) std::free(chunk.start);
}

void* BlockChunks::carve(std::size_t bytes) {
  for (Chunk& chunk : chunks_) {
    if (kChunk - chunk.used < bytes) continue;
    char* data = chunk.start + chunk.used;
    chunk.used = std::min(kChunk, chunk.used + bytes + kStagger);
    ++chunk.blocks;
    return data;
  }
  chunks_.reserve(chunks_.size() + 1);  // only this line can throw
  char* start = static_cast<char*>(allocate_huge(kChunk));
  if (start == nullptr) return nullptr;
  chunks_.push_back({.start = start, .used = 0, .blocks = 0});
  return carve(bytes);
}

std::size_t BlockChunks::chunk_of(const void* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::size_t chunk = 0;
  while (chunk < chunks_.size() &&
         address - reinterpret_cast<std::uintptr_t>(chunks_[chunk].start) >= kChunk) {
    ++chunk;
  }
  return chunk;
}

void BlockChunks::give_back(const std::vector<bool>& give) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (give[i]) {
      std::free(chunks_[i].start);
    } else {
      chunks_[kept++] = chunks_[i];
    }
  }
  chunks_.resize(kept);
}

}  // namespace trireme::cpu
