#include "kernels/cpu/memory/memory_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "kernels/cpu/memory/block_chunks.h"

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

TEST(MemorySourceTest, SmallBlocksShareHugePages) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "under AddressSanitizer every block is on its own";
#endif
  constexpr std::size_t kBytes = std::size_t{100} << 10;
  const auto source = make_memory_source({});
  std::set<std::uintptr_t> chunks, sets;
  std::vector<char*> blocks;
  for (int i = 0; i < 60; ++i) {
    blocks.push_back(static_cast<char*>(source->allocate(kBytes)));
    ASSERT_NE(blocks.back(), nullptr);
    std::memset(blocks.back(), i, kBytes);
    const auto address = reinterpret_cast<std::uintptr_t>(blocks.back());
    EXPECT_EQ(address % Allocator::kAlignment, 0u);
    chunks.insert(address / kHugePage);
    sets.insert(address / 64 % 64);
  }
  EXPECT_LE(chunks.size(), 4u) << "of 6 MiB; a start that is no multiple of a huge page would touch one more";
  EXPECT_GT(sets.size(), 20u) << "equal blocks must not start in the same sets of the caches";
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(blocks[i][0], i);
    EXPECT_EQ(blocks[i][kBytes - 1], i) << "blocks overlap";
  }
  EXPECT_EQ(source->reserved_bytes(), static_cast<std::int64_t>(60 * kBytes));
}

TEST(MemorySourceTest, AChunkWithABlockInUseStays) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the process on such a request";
#endif
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const auto source = make_memory_source({});
  std::vector<char*> blocks;  // more than two chunks
  for (int i = 0; i < 20; ++i) blocks.push_back(static_cast<char*>(source->allocate(kBytes)));
  std::memset(blocks[0], 7, kBytes);
  for (int i = 1; i < 20; ++i) source->deallocate(blocks[i], kBytes);
  EXPECT_EQ(source->allocate(std::size_t{1} << 62), nullptr);
  EXPECT_GE(source->reserved_bytes(), static_cast<std::int64_t>(kBytes));
  EXPECT_LT(source->reserved_bytes(), static_cast<std::int64_t>(10 * kBytes)) << "idle chunks must go back";
  EXPECT_EQ(blocks[0][kBytes - 1], 7);
  source->deallocate(blocks[0], kBytes);
  EXPECT_EQ(source->allocate(std::size_t{1} << 62), nullptr);
  EXPECT_EQ(source->reserved_bytes(), 0);
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
