// Huge pages for blocks that are smaller than a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::cpu {

/// The size of a huge page on nearly all systems.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Memory aligned to kHugePage, with madvise() for huge pages. Null when there is no memory.
void* allocate_huge(std::size_t bytes);

/// [Note: small blocks] A small network's tensors are all below 2 MiB. In pages of 4 KiB they need more TLB
/// entries than a core has, and each access to a distant row of a product misses. So blocks from kSmallest
/// bytes up to a huge page are carved from chunks of huge pages, in the order of requests. A block starts
/// kStagger bytes after the end of the previous one, so that blocks of equal size map to different cache
/// sets. Waste: kStagger per block, and the rest of a chunk that is too small for any later block. That is at
/// most a quarter, and untouched pages cost nothing. A chunk is returned to the system only when all of its
/// blocks are free.
class BlockChunks {
 public:
  static constexpr std::size_t kChunk = 4 * kHugePage, kSmallest = std::size_t{16} << 10;
  static constexpr std::size_t kStagger = 17 * 64;  // an odd number of cache lines

  BlockChunks() = default;
  ~BlockChunks();
  BlockChunks(const BlockChunks&) = delete;
  BlockChunks& operator=(const BlockChunks&) = delete;

  static bool takes(std::size_t bytes) { return bytes >= kSmallest && bytes < kHugePage; }
  /// `bytes` is a multiple of 64, and so is the address. Null when there is no memory.
  void* carve(std::size_t bytes);

  std::size_t num_chunks() const { return chunks_.size(); }
  /// The index of the chunk that holds `data`; num_chunks() for other memory.
  std::size_t chunk_of(const void* data) const;
  std::int64_t num_blocks(std::size_t chunk) const { return chunks_[chunk].blocks; }
  /// Returns the chunks with give[i] to the system. The indices of the others change.
  void give_back(const std::vector<bool>& give);

 private:
  struct Chunk {
    char* start;
    std::size_t used;
    std::int64_t blocks;
  };
  std::vector<Chunk> chunks_;
};

}  // namespace trireme::cpu
