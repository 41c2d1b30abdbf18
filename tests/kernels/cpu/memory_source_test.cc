#include "kernels/cpu/memory_source.h"

#include <gtest/gtest.h>

#include <cstring>

namespace trireme::cpu {
namespace {

constexpr std::size_t kSmall = 4096, kLarge = std::size_t{5} << 20;

TEST(MemorySourceTest, BlocksAreAlignedAndWritable) {
  const auto source = make_memory_source({});
  for (const std::size_t bytes : {Allocator::kAlignment, kSmall, kLarge, kLarge + Allocator::kAlignment}) {
    void* data = source->allocate(bytes);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % Allocator::kAlignment, 0u);
    std::memset(data, 0xAB, bytes);
    source->deallocate(data, bytes);
  }
}

TEST(MemorySourceTest, ReservedCountsLiveAndCached) {
  const auto source = make_memory_source({});
  void* a = source->allocate(kSmall);
  void* b = source->allocate(kLarge);
  EXPECT_EQ(source->reserved_bytes(), static_cast<std::int64_t>(kSmall + kLarge));
  source->deallocate(a, kSmall);
  source->deallocate(b, kLarge);
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_EQ(source->reserved_bytes(), 0) << "under AddressSanitizer freed blocks must really be freed";
#else
  EXPECT_EQ(source->reserved_bytes(), static_cast<std::int64_t>(kSmall + kLarge));
  EXPECT_EQ(source->allocate(kLarge), b) << "the cached block of this size";
  EXPECT_EQ(source->reserved_bytes(), static_cast<std::int64_t>(kSmall + kLarge));
  source->deallocate(b, kLarge);
#endif
}

TEST(MemorySourceTest, AFailedAllocationReleasesTheCache) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the process on such a request";
#endif
  const auto source = make_memory_source({});
  source->deallocate(source->allocate(kLarge), kLarge);
  EXPECT_GT(source->reserved_bytes(), 0);
  EXPECT_EQ(source->allocate(std::size_t{1} << 62), nullptr);
  EXPECT_EQ(source->reserved_bytes(), 0);
}

}  // namespace
}  // namespace trireme::cpu
