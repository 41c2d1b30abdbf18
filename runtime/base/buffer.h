// A reference-counted allocation from an Allocator. Copies share it; the last one frees it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/base/allocator.h"

namespace trireme {

class Buffer {
 public:
  Buffer() = default;
  /// Uninitialised memory. Throws Error(kOutOfMemory). `origin` as in Allocator::allocate.
  Buffer(std::shared_ptr<Allocator> allocator, std::size_t bytes, MemoryCategory category,
         const char* origin = "")
      : block_(std::make_shared<Block>(std::move(allocator), bytes, category, origin)) {}

  void* data() const { return block_ ? block_->data : nullptr; }
  std::size_t size_bytes() const { return block_ ? block_->bytes : 0; }
  bool defined() const { return block_ != nullptr; }
  /// Number of buffers that share the memory; if 1, it may be written in place.
  long use_count() const { return block_.use_count(); }
  const Allocator& allocator() const { return *block_->allocator; }

 private:
  struct Block {
    std::shared_ptr<Allocator> allocator;
    void* data = nullptr;
    std::size_t bytes = 0;
    MemoryCategory category = MemoryCategory::kActivations;
    Block(std::shared_ptr<Allocator> a, std::size_t n, MemoryCategory c, const char* origin)
        : allocator(std::move(a)), data(allocator->allocate(n, c, origin)), bytes(n), category(c) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { allocator->deallocate(data, bytes, category); }
  };
  std::shared_ptr<Block> block_;
};

}  // namespace trireme
