// Host memory from a separate allocator, for tests of code that takes a Buffer and uses no backend.
#pragma once

#include <cstdlib>
#include <memory>

#include "runtime/base/buffer.h"

namespace trireme::testing {

inline Buffer host_buffer(std::size_t bytes) {
  class Source final : public MemorySource {
   public:
    void* allocate(std::size_t size) override { return std::aligned_alloc(Allocator::kAlignment, size); }
    void deallocate(void* data, std::size_t) noexcept override { std::free(data); }
    std::int64_t reserved_bytes() const override { return 0; }
  };
  return {std::make_shared<Allocator>(Device{DeviceType::kCpu}, std::make_unique<Source>()), bytes,
          MemoryCategory::kData};
}

}  // namespace trireme::testing
