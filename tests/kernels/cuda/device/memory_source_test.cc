#include "kernels/cuda/device/memory_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/emulation.h"

namespace trireme::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct MemoryLimit {
  explicit MemoryLimit(std::size_t bytes) { emulation::set_memory_limit(bytes); }
  ~MemoryLimit() { emulation::set_memory_limit(std::size_t{1} << 50); }
};

std::unique_ptr<MemorySource> source() {
  return make_memory_source({DeviceType::kCuda, 0});
}

TEST(CudaMemorySource, BlocksAreAlignedApartAndReused) {
  const auto memory = source();
  std::mt19937 random(1);
  std::map<std::uintptr_t, std::size_t> live;
  for (int round = 0; round < 4000; ++round) {
    if (live.size() < 40 || random() % 2 == 0) {
      const std::size_t bytes = 64 * (1 + random() % (random() % 8 == 0 ? 60'000 : 300));
      const auto address = reinterpret_cast<std::uintptr_t>(memory->allocate(bytes));
      ASSERT_NE(address, 0u);
      EXPECT_EQ(address % 256, 0u);
      const auto next = live.lower_bound(address);
      if (next != live.end()) {
        EXPECT_LE(address + bytes, next->first);
      }
      if (next != live.begin()) {
        EXPECT_LE(std::prev(next)->first + std::prev(next)->second, address);
      }
      live[address] = bytes;
    } else {
      auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      memory->deallocate(reinterpret_cast<void*>(victim->first), victim->second);
      live.erase(victim);
    }
  }
  for (const auto& [address, bytes] : live) memory->deallocate(reinterpret_cast<void*>(address), bytes);
  // Everything has been merged again, so the reserved memory suffices for one block of the largest segment's
  // size.
  const std::int64_t reserved = memory->reserved_bytes();
  void* large = memory->allocate(30 * kMiB);
  EXPECT_EQ(memory->reserved_bytes(), reserved);
  memory->deallocate(large, 30 * kMiB);
}

TEST(CudaMemorySource, FreedNeighboursMerge) {
  const auto memory = source();
  void* a = memory->allocate(8 * kMiB);
  void* b = memory->allocate(8 * kMiB);
  void* c = memory->allocate(8 * kMiB);
  const std::int64_t reserved = memory->reserved_bytes();
  memory->deallocate(a, 8 * kMiB);
  memory->deallocate(c, 8 * kMiB);
  memory->deallocate(b, 8 * kMiB);
  EXPECT_EQ(memory->allocate(24 * kMiB), a);
  EXPECT_EQ(memory->reserved_bytes(), reserved);
}

TEST(CudaMemorySource, FreeSegmentsGoBackWhenTheCardIsFull) {
  const MemoryLimit limit(100 * kMiB);
  const auto memory = source();
  void* first = memory->allocate(60 * kMiB);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(memory->allocate(60 * kMiB), nullptr);
  memory->deallocate(first, 60 * kMiB);
  // The 60 MiB in the cache are too small. They are returned, and 90 MiB are allocated.
  EXPECT_NE(memory->allocate(90 * kMiB), nullptr);
  EXPECT_EQ(memory->reserved_bytes(), static_cast<std::int64_t>(90 * kMiB));
  EXPECT_EQ(emulation::allocated_bytes(), 90 * kMiB);
}

// cudaFree waits for the card, and thus for messages of peers that may be waiting for this rank.
TEST(CudaMemorySource, NothingGoesBackWhileMessagesAreUnderWay) {
  const MemoryLimit limit(100 * kMiB);
  Allocator allocator({DeviceType::kCuda, 0}, source());
  const auto activations = [&](std::size_t bytes) {
    return allocator.allocate(bytes, MemoryCategory::kActivations);
  };
  allocator.deallocate(activations(60 * kMiB), 60 * kMiB, MemoryCategory::kActivations);
  {
    const MemoryKeepScope keep(allocator);
    const long before = emulation::counts().frees;
    allocator.deallocate(activations(50 * kMiB), 50 * kMiB, MemoryCategory::kActivations);
    try {
      (void)activations(90 * kMiB);
      ADD_FAILURE() << "fits";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      EXPECT_NE(
          std::string(error.what()).find("of 60.00 MiB from the device nothing goes back while messages"),
          std::string::npos)
          << error.what();
    }
    EXPECT_EQ(emulation::counts().frees, before);
  }
  EXPECT_NE(activations(90 * kMiB), nullptr);
  EXPECT_EQ(emulation::allocated_bytes(), 90 * kMiB);
}

TEST(CudaMemorySource, SmallRequestsTakeWhatIsLeft) {
  const MemoryLimit limit(10 * kMiB);
  const auto memory = source();
  EXPECT_NE(memory->allocate(4 * kMiB), nullptr);  // a whole segment of 32 MiB does not fit
  EXPECT_NE(memory->allocate(64), nullptr);
  EXPECT_EQ(memory->allocate(8 * kMiB), nullptr);
}

TEST(CudaMemorySource, GivesEverythingBackAtTheEnd) {
  const std::size_t before = emulation::allocated_bytes();
  {
    const auto memory = source();
    (void)memory->allocate(5 * kMiB);
    (void)memory->allocate(64);
  }
  EXPECT_EQ(emulation::allocated_bytes(), before);
}

TEST(CudaMemorySource, OutOfMemoryNamesTheBytes) {
  const MemoryLimit limit(10 * kMiB);
  Allocator allocator({DeviceType::kCuda, 0}, source());
  try {
    (void)allocator.allocate(20 * kMiB, MemoryCategory::kActivations);
    FAIL() << "20 MiB fit into 10";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    for (const char* word : {"cuda:0", "20.00 MiB", "activations"}) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace trireme::cuda
