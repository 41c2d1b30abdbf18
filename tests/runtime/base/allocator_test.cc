#include "runtime/base/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HostSource final : public MemorySource {
 public:
  void* allocate(std::size_t bytes) override { return std::malloc(bytes); }
  void deallocate(void* data, std::size_t) noexcept override { std::free(data); }
  std::int64_t reserved_bytes() const override { return 0; }
};

constexpr std::int64_t kLimit = 10 * 1024;

struct OutOfMemory : ::testing::Test {
  Allocator allocator{{DeviceType::kCpu, 0}, std::make_unique<HostSource>(), kLimit};

  std::string message(std::size_t bytes, MemoryCategory category, const char* origin = "") {
    try {
      allocator.deallocate(allocator.allocate(bytes, category, origin), bytes, category);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      return error.what();
    }
  }
};

TEST_F(OutOfMemory, NamesWhoAskedAndTheLargestHolders) {
  void* table = nullptr;
  void* first = nullptr;
  void* second = nullptr;
  {
    const MemoryHolderScope scope(allocator, "embedding");
    table = allocator.allocate(4096, MemoryCategory::kParameters, "../../parallel/param_store.cc");
    const MemoryHolderScope inner(allocator, "blocks.1");
    first = allocator.allocate(1024, MemoryCategory::kActivations, "/src/runtime/ops/attention.cc");
    second = allocator.allocate(2048, MemoryCategory::kActivations, "/src/runtime/ops/attention.cc");
    EXPECT_THAT(
        message(8192, MemoryCategory::kActivations, "runtime/ops/linear.cc"),
        AllOf(HasSubstr("8.00 KiB more for activations of blocks.1 (linear) do not fit under the limit of "
                        "10.00 KiB"),
              HasSubstr("parameters 4.00 KiB"), HasSubstr("activations 3.00 KiB"),
              HasSubstr("the largest: parameters of embedding (param_store) 4.00 KiB, activations of "
                        "blocks.1 (attention) 3.00 KiB")));
  }
  // Scopes have ended, and freed memory has no holder.
  allocator.deallocate(first, 1024, MemoryCategory::kActivations);
  allocator.deallocate(second, 2048, MemoryCategory::kActivations);
  EXPECT_THAT(message(8192, MemoryCategory::kBatch),
              AllOf(HasSubstr("more for batch do not fit"), Not(HasSubstr("attention"))));
  allocator.deallocate(table, 4096, MemoryCategory::kParameters);
  EXPECT_EQ(message(8192, MemoryCategory::kBatch), "");
}

TEST_F(OutOfMemory, NamesNoMoreThanFive) {
  std::vector<void*> held;
  for (int i = 0; i < 8; ++i) {
    const MemoryHolderScope scope(allocator, "blocks." + std::to_string(i));
    held.push_back(allocator.allocate(64 * static_cast<std::size_t>(i + 1), MemoryCategory::kGradients));
  }
  EXPECT_THAT(message(1 << 20, MemoryCategory::kGradients),
              AllOf(HasSubstr("the largest: gradients of blocks.7 512 B"), HasSubstr("blocks.3 256 B"),
                    Not(HasSubstr("blocks.2"))));
  for (int i = 0; i < 8; ++i) {
    allocator.deallocate(held[static_cast<std::size_t>(i)], 64 * static_cast<std::size_t>(i + 1),
                         MemoryCategory::kGradients);
  }
}

}  // namespace
}  // namespace trireme
