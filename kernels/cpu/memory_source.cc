#include "kernels/cpu/memory_source.h"

#include <cstdlib>
#include <map>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace trireme::cpu {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCacheFreedBlocks = false;
#else
constexpr bool kCacheFreedBlocks = true;
#endif

// Blocks from here on start at a multiple of a huge page and ask for huge pages: one page fault instead of
// 512.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

void* allocate_fresh(std::size_t bytes) {
  if (bytes < kHugePage) return std::aligned_alloc(Allocator::kAlignment, bytes);
  void* data = nullptr;
  if (posix_memalign(&data, kHugePage, bytes) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish; refusal costs speed only
#endif
  return data;
}

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
      } catch (...) {  // no memory for the list itself: give the block back
      }
    }
    std::free(data);
    reserved_bytes_ -= static_cast<std::int64_t>(bytes);
  }

  std::int64_t reserved_bytes() const override { return reserved_bytes_; }

 private:
  void release_cache() noexcept {
    for (auto& [bytes, blocks] : free_) {
      for (void* data : blocks) std::free(data);
      reserved_bytes_ -= static_cast<std::int64_t>(bytes * blocks.size());
    }
    free_.clear();
  }

  std::map<std::size_t, std::vector<void*>> free_;
  std::int64_t reserved_bytes_ = 0;
};

}  // namespace

std::unique_ptr<MemorySource> make_memory_source(Device) {
  return std::make_unique<HostMemorySource>();
}

}  // namespace trireme::cpu
