#include "launcher/partner/borrowed_tensor.h"

#include <utility>

namespace trireme {
namespace {

// Allocator rounds requests up; the rounded size does not exceed the last page of the borrowed memory.
class BorrowedMemory : public MemorySource {
 public:
  BorrowedMemory(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}
  void* allocate(std::size_t) override { return const_cast<std::byte*>(bytes_.data()); }
  void deallocate(void*, std::size_t) noexcept override {}
  std::int64_t reserved_bytes() const override { return std::ssize(bytes_); }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace

Tensor borrowed_tensor(std::shared_ptr<const void> owner, std::span<const std::byte> bytes) {
  const auto memory = std::make_shared<Allocator>(Device{DeviceType::kCpu, 0},
                                                  std::make_unique<BorrowedMemory>(std::move(owner), bytes));
  return Tensor(memory, {std::ssize(bytes)}, DType::kUInt8, MemoryCategory::kHost);
}

}  // namespace trireme
