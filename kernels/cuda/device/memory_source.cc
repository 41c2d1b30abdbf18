#include "kernels/cuda/device/memory_source.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/handle.h"
#include "runtime/base/log.h"

namespace trireme::cuda {
namespace {

// Block sizes and addresses are multiples of this, which exceeds every alignment that accesses or libraries
// need.
constexpr std::size_t kGranule = 512;
// Small blocks have separate segments, so that they do not fragment large ones.
constexpr std::size_t kSmallBlock = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = std::size_t{2} << 20;
constexpr std::size_t kLargeSegment = std::size_t{32} << 20;
constexpr std::size_t kSegmentGranule = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes, std::size_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

class DeviceMemorySource final : public MemorySource {
 public:
  explicit DeviceMemorySource(int device) : device_(device) {}

  ~DeviceMemorySource() override {
    // cudaFree waits for work that uses the memory.
    for (const auto& [address, segment] : segments_) {
      check_noexcept(cudaFree(reinterpret_cast<void*>(address)), "cudaFree");
    }
  }

  void* allocate(std::size_t bytes) override {
    const std::size_t size = rounded(bytes, kGranule);
    const Kind kind{.small = size < kSmallBlock, .fixed = fixed_pool_};
    FreeBlocks& free = free_blocks(kind);
    auto found = free.lower_bound({size, 0});  // best fit
    if (found == free.end()) {
      if (!add_segment(kind, size)) return nullptr;
      found = free.lower_bound({size, 0});
    }
    const auto [block_bytes, address] = *found;
    free.erase(found);
    Block& block = blocks_.at(address);
    block.free = false;
    if (block_bytes > size) {
      block.bytes = size;
      blocks_[address + size] = {.bytes = block_bytes - size, .segment = block.segment, .free = true};
      free.insert({block_bytes - size, address + size});
    }
    return reinterpret_cast<void*>(address);
  }

  void deallocate(void* data, std::size_t) noexcept override {
    try {
      release(reinterpret_cast<std::uintptr_t>(data));
    } catch (const std::exception& error) {  // no memory for the lists: the block is lost until exit
      log_error(error.what());
    }
  }

  std::int64_t reserved_bytes() const override { return reserved_bytes_; }

  void use_fixed_pool(bool on) override {
    // Returns memory cached by the other pool, which would not be used again.
    if (on && !fixed_pool_ && !keeps_) give_back_free_segments();
    fixed_pool_ = on;
  }
  void give_back() override { give_back_free_segments(); }
  void keep(bool on) override { keeps_ = on; }

 private:
  struct Block {
    std::size_t bytes = 0;
    std::uintptr_t segment = 0;  // its start
    bool free = false;
  };
  struct Kind {
    bool small = false;  // blocks
    bool fixed = false;  // in the pool with fixed addresses
  };
  struct Segment {
    std::size_t bytes = 0;
    Kind kind;
  };
  using FreeBlocks = std::set<std::pair<std::size_t, std::uintptr_t>>;  // (bytes, address)

  FreeBlocks& free_blocks(Kind kind) { return free_[kind.fixed][kind.small]; }

  bool add_segment(Kind kind, std::size_t size) {
    const std::size_t bytes =
        kind.small ? kSmallSegment : std::max(kLargeSegment, rounded(size, kSegmentGranule));
    void* data = try_cuda_malloc(bytes);
    if (data == nullptr && !kind.fixed && !keeps_) {  // cudaFree is refused while work is recorded
      give_back_free_segments();
      data = try_cuda_malloc(bytes);
    }
    // Last attempt, with only the required size.
    const std::size_t least = rounded(size, kSegmentGranule);
    const bool reduced = data == nullptr && least < bytes;
    if (reduced) data = try_cuda_malloc(least);
    if (data == nullptr) return false;
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const std::size_t got = reduced ? least : bytes;
    segments_[address] = {got, kind};
    blocks_[address] = {.bytes = got, .segment = address, .free = true};
    free_blocks(kind).insert({got, address});
    reserved_bytes_ += static_cast<std::int64_t>(got);
    return true;
  }

  void* try_cuda_malloc(std::size_t bytes) const {
    const DeviceGuard guard(device_);
    void* data = nullptr;
    const cudaError_t result = cudaMalloc(&data, bytes);
    if (result == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return nullptr;
    }
    check(result, "cudaMalloc");
    return data;
  }

  void give_back_free_segments() {
    const DeviceGuard guard(device_);
    for (auto segment = segments_.begin(); segment != segments_.end();) {
      const Block& first = blocks_.at(segment->first);
      if (segment->second.kind.fixed || !first.free || first.bytes != segment->second.bytes) {
        ++segment;
        continue;
      }
      check(cudaFree(reinterpret_cast<void*>(segment->first)), "cudaFree");
      free_blocks(segment->second.kind).erase({first.bytes, segment->first});
      reserved_bytes_ -= static_cast<std::int64_t>(first.bytes);
      blocks_.erase(segment->first);
      segment = segments_.erase(segment);
    }
  }

  // Frees a block and merges it with free neighbours of the same segment.
  void release(std::uintptr_t address) {
    auto block = blocks_.find(address);
    FreeBlocks& free = free_blocks(segments_.at(block->second.segment).kind);
    if (const auto next = std::next(block);
        next != blocks_.end() && next->second.free && next->second.segment == block->second.segment) {
      free.erase({next->second.bytes, next->first});
      block->second.bytes += next->second.bytes;
      blocks_.erase(next);
    }
    if (block != blocks_.begin()) {
      const auto previous = std::prev(block);
      if (previous->second.free && previous->second.segment == block->second.segment) {
        free.erase({previous->second.bytes, previous->first});
        previous->second.bytes += block->second.bytes;
        blocks_.erase(block);
        block = previous;
      }
    }
    block->second.free = true;
    free.insert({block->second.bytes, block->first});
  }

  const int device_;
  std::map<std::uintptr_t, Segment> segments_;  // by start
  std::map<std::uintptr_t, Block> blocks_;      // all, by address
  FreeBlocks free_[2][2];                       // [fixed][small]
  bool fixed_pool_ = false, keeps_ = false;
  std::int64_t reserved_bytes_ = 0;
};

}  // namespace

std::unique_ptr<MemorySource> make_memory_source(Device device) {
  return std::make_unique<DeviceMemorySource>(device.index);
}

std::int64_t free_bytes(Device device) {
  const DeviceGuard guard(device.index);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

}  // namespace trireme::cuda
