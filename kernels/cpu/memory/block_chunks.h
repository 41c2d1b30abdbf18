// Memory of huge pages for blocks that are smaller than one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::cpu {

/// The size of a huge page, as it is nearly everywhere.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// A start at a multiple of kHugePage, with the wish for huge pages. Null when there is no memory.
void* allocate_huge(std::size_t bytes);

/// [Note: small blocks] A small network's tensors are all below 2 MiB: in pages of 4 KiB they need more
/// entries than a core keeps addresses for, and every row that a product reads at a distance misses. So
/// blocks of kSmallest bytes up to a huge page are carved, in the order of requests, from
/// chunks that are huge pages. A block starts kStagger bytes after the one before, so that equal ones fall
/// into different sets of the caches. Wasted are kStagger a block, and of a chunk what is too small for any
/// later block: at most a quarter (pages that nobody touches cost nothing). A block cannot go back alone: a
/// chunk is given back when all of its blocks are free.
class BlockChunks {
 public:
  static constexpr std::size_t kChunk = 4 * kHugePage, kSmallest = std::size_t{16} << 10;
  static constexpr std::size_t kStagger = 17 * 64;  // an odd number of cache lines

  BlockChunks() = default;
  ~BlockChunks();
  BlockChunks(const BlockChunks&) = delete;
  BlockChunks& operator=(const BlockChunks&) = delete;

  static bool takes(std::size_t bytes) { return bytes >= kSmallest && bytes < kHugePage; }
  /// A multiple of 64 bytes, at a multiple of 64. Null when there is no memory.
  void* carve(std::size_t bytes);

  std::size_t num_chunks() const { return chunks_.size(); }
  /// The index of the chunk that holds `data`; num_chunks() for other memory.
  std::size_t chunk_of(const void* data) const;
  std::int64_t num_blocks(std::size_t chunk) const { return chunks_[chunk].blocks; }
  /// Gives the chunks with give[i] back to the system; the indices of the others change.
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
