#include "runtime/base/buffer.h"

namespace trireme {

Buffer::Block::Block(std::shared_ptr<Allocator> a, std::size_t n, MemoryCategory c, const char* origin)
    : allocator(std::move(a)), data(allocator->allocate(n, c, origin)), bytes(n), category(c) {}

Buffer::Block::~Block() {
  allocator->deallocate(data, bytes, category);
}

Buffer::Buffer(std::shared_ptr<Allocator> allocator, std::size_t bytes, MemoryCategory category,
               const char* origin)
    : block_(std::make_shared<Block>(std::move(allocator), bytes, category, origin)) {}

}  // namespace trireme
