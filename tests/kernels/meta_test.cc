// The meta backend counts memory, and computes nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "kernels/attention_workspace.h"
#include "kernels/backend.h"
#include "kernels/lstm_workspace.h"
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

// A null entry would crash the first plan with that op.
TEST_F(MetaTest, BothTablesLackWhatTheirDevicesDoNotHave) {
  // Only devices other than the host have these.
  std::set<std::string> of_cards = {"examine_devices", "free_bytes",      "make_host_copy",
                                    "native_stream",   "prepare_uploads", "product_choices",
                                    "begin_capture",   "end_capture",     "launch_graph"};
  EXPECT_EQ(missing_entries(cpu_backend()), of_cards);
  // Only devices that compute have these.
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

AttentionBwdArgs attention_of(std::int64_t samples, int heads, std::int64_t length) {
  const Shape rows{samples, length, heads * 64}, packed{samples, length, 3 * heads * 64};
  return {.dout = {nullptr, DType::kBFloat16, rows},
          .qkv = {nullptr, DType::kBFloat16, packed},
          .out = {nullptr, DType::kBFloat16, rows},
          .lse = {nullptr, DType::kFloat32, {samples, heads, length}},
          .dqkv = {nullptr, DType::kBFloat16, packed},
          .num_heads = heads};
}

// See [Note: parts of an attention].
TEST_F(MetaTest, CountsTheWorkspaceOfAttentionForJobsOnCudaAlone) {
  const std::int64_t rows = 2 * 25 * 8192 * 4, head = std::int64_t{8192} * 8192 * 2;
  const AttentionBwdArgs args = attention_of(2, 25, 8192);
  const auto peak_on = [&](DeviceType type) {
    allocator_.reset_peak();
    meta_backend_for(type).run(exec_, args);
    return allocator_.stats().peak[MemoryCategory::kWorkspace];
  };
  EXPECT_EQ(peak_on(DeviceType::kCuda), 5 * head + rows) << "at most 5 of 25 heads fit into 1 GiB";
  EXPECT_EQ(peak_on(DeviceType::kCpu), 0);
  EXPECT_EQ(allocator_.stats().current[MemoryCategory::kWorkspace], 0);
  EXPECT_EQ(attention_bwd_workspace(args, std::int64_t{1} << 40), 50 * head + rows) << "without the cap";
  EXPECT_EQ(attention_bwd_workspace(attention_of(4, 12, 1024)), 4 * 12 * (1024 * 1024 * 2 + 1024 * 4));
  // The workspace has gradients of keys and values for each query head of a part. If a part is less than a
  // group of 4 heads, it also has copies of keys and values: see [Note: grouped queries on cuda].
  AttentionBwdArgs grouped = attention_of(4, 8, 4096);
  grouped.num_kv_heads = 2;
  grouped.qkv.shape = grouped.dqkv.shape = {4, 4096, (8 + 2 * 2) * 64};
  const std::int64_t sample = std::int64_t{8} * 4096 * 4096 * 2, gradients = 4096 * (2 * 8 * 64) * 2,
                     sums = 8 * 4096 * 4;
  EXPECT_EQ(attention_bwd_workspace(grouped), 4 * (sample + gradients + sums));
  EXPECT_EQ(attention_bwd_workspace(grouped, sample), sample + gradients + 4 * sums);
  EXPECT_EQ(attention_bwd_workspace(grouped, sample - 1), sample / 2 + gradients / 2 + 4 * sums);
  EXPECT_EQ(attention_bwd_workspace(grouped, sample / 2 - 1), sample / 4 + 2 * gradients + sums);
  // Native kernels run these calls, without a workspace.
  AttentionBwdArgs with_dropout = args;
  with_dropout.dropout_p = 0.1f;
  EXPECT_EQ(attention_bwd_workspace(with_dropout), 0);
  EXPECT_EQ(attention_bwd_workspace(attention_of(2, 25, 8190)), 0)
      << "rows are not split if their length is not a multiple of 4";
  const ConstTensorView q{nullptr, DType::kBFloat16, {2, 4096, 8 * 40}},
      k{nullptr, DType::kBFloat16, {2, 77, 320}};
  CrossAttentionBwdArgs cross{.q = q, .k = k, .v = k, .num_heads = 8};
  EXPECT_EQ(attention_bwd_workspace(cross), charged_bytes(2 * 8 * 4096 * 77 * 2) + 2 * 8 * 4096 * 4);
  cross.num_heads = 64;
  EXPECT_EQ(attention_bwd_workspace(cross), 0) << "heads of 5 elements run on native kernels";
  EXPECT_GT(attention_bwd_workspace(attention_of(1, 1, 25904)), 0);
  EXPECT_EQ(attention_bwd_workspace(attention_of(1, 1, 25908)), 0);
}

// Buckets of 1 + 2 ids and places, and two rows of partial sums for each 128 places.
TEST_F(MetaTest, CountsTheWorkspaceOfATableForJobsOnCudaAlone) {
  const EmbeddingBwdArgs args{.dx = {nullptr, DType::kBFloat16, {256, 128, 768}},
                              .tokens = {nullptr, DType::kInt32, {256, 128}},
                              .dtable = {nullptr, DType::kFloat32, {2, 768}}};
  const auto peak_on = [&](DeviceType type) {
    allocator_.reset_peak();
    meta_backend_for(type).run(exec_, args);
    return allocator_.stats().peak[MemoryCategory::kWorkspace];
  };
  const std::int64_t places = std::int64_t{256} * 128;
  EXPECT_EQ(peak_on(DeviceType::kCuda),
            charged_bytes(4 * (3 * 2 + 1 + 2 * places)) + charged_bytes((2 * places / 128 + 1) * 768 * 4));
  EXPECT_EQ(peak_on(DeviceType::kCpu), 0);
  EmbeddingBwdArgs frozen = args;
  frozen.dtable_mode = GradientMode::kIgnore;
  EXPECT_EQ(embedding_bwd_workspace(frozen), 0);
}

TEST_F(MetaTest, CountsTheWorkspaceOfAnLstmForJobsOnCudaAlone) {
  const std::int64_t samples = 20, units = 650, cells_bytes = samples * units * 4;
  const ConstTensorView weight{nullptr, DType::kBFloat16, {4 * units, units}};
  float memory[1];
  const TensorView state{memory, DType::kBFloat16, {samples, units}};
  LstmFwdArgs fwd{.x = {}, .w_hh = weight, .c = {nullptr, DType::kFloat32, {samples, 35, units}}};
  LstmBwdArgs bwd{.c = fwd.c, .w_hh = weight};
  const auto peak_on = [&](DeviceType type, const auto& args) {
    allocator_.reset_peak();
    meta_backend_for(type).run(exec_, args);
    return allocator_.stats().peak[MemoryCategory::kWorkspace];
  };
  EXPECT_EQ(peak_on(DeviceType::kCuda, fwd), charged_bytes(4 * cells_bytes));
  EXPECT_EQ(peak_on(DeviceType::kCuda, bwd), 2 * charged_bytes(cells_bytes));
  EXPECT_EQ(peak_on(DeviceType::kCpu, fwd), 0);
  fwd.c.shape = bwd.c.shape = {samples, 1, units};
  EXPECT_EQ(lstm_workspace(fwd), 0) << "the state before a single step is 0";
  EXPECT_EQ(lstm_workspace(bwd), charged_bytes(cells_bytes));
  fwd.h0 = state, bwd.dc0 = state;
  EXPECT_EQ(lstm_workspace(fwd), charged_bytes(4 * cells_bytes));
  EXPECT_EQ(lstm_workspace(bwd), 0);
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
