#include "kernels/cpu/memory/memory_source.h"

#include <cstdlib>
#include <map>
#include <vector>

#include "kernels/cpu/memory/block_chunks.h"

namespace trireme::cpu {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCacheFreedBlocks = false;
#else
constexpr bool kCacheFreedBlocks = true;
#endif

class HostMemorySource final : public MemorySource {
 public:
  ~HostMemorySource() override { release_cache(); }

  void* allocate(std::size_t bytes) override {
    if (const auto found = free_.find(bytes); found != free_.end() && !found->second.empty()) {
      void* data = found->second.back();
      found->second.pop_back();
      return data;
    }
    void* data = allocate_fresh(bytes);
    if (data == nullptr) {
      release_cache();
      data = allocate_fresh(bytes);
    }
    if (data != nullptr) reserved_bytes_ += static_cast<std::int64_t>(bytes);
    return data;
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    if (kCacheFreedBlocks) {
      try {
        free_[bytes].push_back(data);
        return;
      } catch (...) {  // no memory for the list itself: release the block if it is not part of a chunk
        if (chunks_.chunk_of(data) != chunks_.num_chunks()) return;
      }
    }
    std::free(data);
    reserved_bytes_ -= static_cast<std::int64_t>(bytes);
  }

  std::int64_t reserved_bytes() const override { return reserved_bytes_; }

 private:
  // Each large block has its own huge pages, so that touching it costs one page fault instead of 512.
  void* allocate_fresh(std::size_t bytes) {
    if (bytes >= kHugePage) return allocate_huge(bytes);
    if (kCacheFreedBlocks && BlockChunks::takes(bytes)) return chunks_.carve(bytes);
    return std::aligned_alloc(Allocator::kAlignment, bytes);
  }

  // Releases all free blocks, except blocks of chunks that have other blocks in use.
  void release_cache() noexcept try {
    std::vector<std::int64_t> idle(chunks_.num_chunks() + 1);  // last element: blocks outside chunks
    for (const auto& [bytes, blocks] : free_) {
      for (const void* data : blocks) ++idle[chunks_.chunk_of(data)];
    }
    std::vector<bool> give(chunks_.num_chunks());
    for (std::size_t i = 0; i < give.size(); ++i) give[i] = idle[i] == chunks_.num_blocks(i);
    for (auto& [bytes, blocks] : free_) release(bytes, blocks, give);
    chunks_.give_back(give);
  } catch (...) {  // no memory for the counts: the cache stays
  }

  void release(std::size_t bytes, std::vector<void*>& blocks, const std::vector<bool>& give) {
    const auto leaves = [&](void* data) {
      const std::size_t chunk = chunks_.chunk_of(data);
      if (chunk == give.size()) std::free(data);
      return chunk == give.size() || give[chunk];
    };
    reserved_bytes_ -= static_cast<std::int64_t>(bytes * std::erase_if(blocks, leaves));
  }

  std::map<std::size_t, std::vector<void*>> free_;
  BlockChunks chunks_;
  std::int64_t reserved_bytes_ = 0;
};

}  // namespace

std::unique_ptr<MemorySource> make_memory_source(Device) {
  return std::make_unique<HostMemorySource>();
}

}  // namespace trireme::cpu
