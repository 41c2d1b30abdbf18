// The meta backend counts and computes nothing.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <vector>

#include "kernels/backend.h"

namespace trireme {
namespace {

constexpr Device kMetaDevice{DeviceType::kMeta, 0};

class MetaTest : public ::testing::Test {
 protected:
  const Backend& backend_ = backend_for(DeviceType::kMeta);
  Allocator allocator_{kMetaDevice, backend_.make_memory_source(kMetaDevice)};
  KernelContext exec_{.device = kMetaDevice, .allocator = &allocator_};
};

// A null entry would crash the first plan that has the op. A table is a struct of pointers, so an entry is
// missing exactly where the bytes of a pointer are zero.
TEST_F(MetaTest, EveryEntryOfBothTablesIsFilled) {
  // Entries that only a device beside the machine has.
  const std::set<std::size_t> of_cards = {
      offsetof(Backend, examine_devices), offsetof(Backend, make_host_copy), offsetof(Backend, native_stream),
      offsetof(Backend, begin_capture),   offsetof(Backend, end_capture),    offsetof(Backend, launch_graph)};
  // Entries that only a device that computes has.
  const std::set<std::size_t> of_arithmetic = {offsetof(Backend, arithmetic), offsetof(Backend, make_stream)};
  for (const Backend* backend : {&meta_backend(), &cpu_backend()}) {
    std::vector<void*> entries(sizeof(Backend) / sizeof(void*));
    std::memcpy(entries.data(), backend, sizeof(Backend));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::size_t at = i * sizeof(void*);
      const bool is_missing =
          of_cards.contains(at) || (backend == &meta_backend() && of_arithmetic.contains(at));
      EXPECT_EQ(entries[i] == nullptr, is_missing) << backend->name << ", entry " << i;
    }
  }
}

TEST_F(MetaTest, AllocatesMoreThanAnyMachineHas) {
  std::set<void*> seen;
  constexpr std::size_t kTerabyte = std::size_t{1} << 40;
  for (int i = 0; i < 100; ++i) {
    void* data = allocator_.allocate(kTerabyte, MemoryCategory::kParameters);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % Allocator::kAlignment, 0u);
    EXPECT_TRUE(seen.insert(data).second);
  }
  EXPECT_EQ(allocator_.reserved_bytes(), std::int64_t{100} << 40);
  EXPECT_EQ(allocator_.stats().peak_total, std::int64_t{100} << 40);
  for (void* data : seen) allocator_.deallocate(data, kTerabyte, MemoryCategory::kParameters);
  EXPECT_EQ(allocator_.reserved_bytes(), 0);
}

TEST_F(MetaTest, OpsTouchNoMemory) {
  void* data = allocator_.allocate(4096, MemoryCategory::kActivations);
  const TensorView x{data, DType::kFloat32, {8, 8}};
  backend_.run(exec_, MatmulArgs{.a = x, .b = x, .d = x});
  backend_.fill_zero(exec_, x);
  backend_.run(exec_, LayerNormFwdArgs{.x = x, .gamma = x, .beta = x, .y = x, .mean = x, .rstd = x});
  const float host[64] = {1, 2, 3};
  backend_.copy_from_host(exec_, x, host);
  float back[64];
  std::memset(back, 0xFF, sizeof back);
  backend_.copy_to_host(exec_, back, x);
  for (const float value : back) EXPECT_EQ(value, 0.0f);
  allocator_.deallocate(data, 4096, MemoryCategory::kActivations);
}

}  // namespace
}  // namespace trireme
