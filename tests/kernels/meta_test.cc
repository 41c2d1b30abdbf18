// The meta backend counts and computes nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/missing_entries.h"

namespace trireme {
namespace {

constexpr Device kMetaDevice{DeviceType::kMeta, 0};

class MetaTest : public ::testing::Test {
 protected:
  const Backend& backend_ = backend_for(DeviceType::kMeta);
  Allocator allocator_{kMetaDevice, backend_.make_memory_source(kMetaDevice)};
  KernelContext exec_{.device = kMetaDevice, .allocator = &allocator_};
};

// A null entry would crash the first plan that has the op.
TEST_F(MetaTest, BothTablesLackWhatTheirDevicesDoNotHave) {
  // Only a device beside the machine has these.
  std::set<std::string> of_cards = {"examine_devices", "make_host_copy", "native_stream",
                                    "begin_capture",   "end_capture",    "launch_graph"};
  EXPECT_EQ(missing_entries(cpu_backend()), of_cards);
  // And only a device that computes has these.
  of_cards.insert({"arithmetic", "make_stream"});
  EXPECT_EQ(missing_entries(meta_backend()), of_cards);
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
