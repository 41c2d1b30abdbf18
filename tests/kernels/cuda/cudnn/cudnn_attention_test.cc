// The graphs that attention requests from cuDNN: their parts, their types, and the engines that it accepts.
#include <gmock/gmock.h>

#include <functional>

#include "kernels/attention_workspace.h"
#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/device/stream.h"
#include "tests/kernels/cuda/cudnn/cudnn_test.h"

namespace trireme::testing {
namespace {

// See [Note: parts of an attention]. 3 samples and 6 heads, with 512 bytes of scores each.
TEST_F(CudnnTest, AttentionGoesInPartsWithinItsWorkspace) {
  emulation::set_dnn_engines({{.workspace_bytes = 64}});
  const Rig rig(DeviceType::kCuda, 1);
  const std::int64_t samples = 3, heads = 6, length = 16, width = 6 * 8;
  const auto varied = [&](const Shape& shape, std::int64_t period) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < shape.num_elems(); ++i)
      values.push_back(static_cast<float>(i * 7 % period) / 64);
    return rig.upload(shape, values, DType::kBFloat16);
  };
  const DeviceArray qkv = varied({samples, length, 3 * width}, 61),
                    dout = varied({samples, length, width}, 53);
  const DeviceArray out = rig.poisoned({samples, length, width}, DType::kBFloat16),
                    lse = rig.poisoned({samples, heads, length});
  rig.run(AttentionFwdArgs{.qkv = qkv, .out = out, .lse = lse, .num_heads = heads, .scale = 0.25f});
  cuda::Stream& stream = cuda::stream_of(rig.exec());
  const auto gradient = [&](std::int64_t most_bytes, int expected_runs) {
    cuda::AttentionLibrary library(cuda::make_cudnn_handle(stream.get()), rig.shared_allocator(), most_bytes);
    const DeviceArray dqkv = rig.poisoned({samples, length, 3 * width}, DType::kBFloat16);
    const int before = dnn_counts().runs;
    EXPECT_TRUE(library.run_bwd({.dout = dout,
                                 .qkv = qkv,
                                 .out = out,
                                 .lse = lse,
                                 .dqkv = dqkv,
                                 .num_heads = heads,
                                 .scale = 0.25f}));
    EXPECT_EQ(dnn_counts().runs - before, expected_runs) << most_bytes;
    return dqkv.download();
  };
  const std::vector<float> whole = gradient(kAttentionScoreBytes, 1);
  struct Cap {
    std::int64_t bytes;
    int parts;
  };
  for (const auto& [bytes, parts] : {Cap{18 * 512, 1}, Cap{18 * 512 - 1, 3}, Cap{6 * 512, 3}, Cap{5 * 512, 6},
                                     Cap{2 * 512, 9}, Cap{512, 18}, Cap{1, 18}}) {
    EXPECT_TRUE(same_bits(gradient(bytes, parts), whole)) << bytes;
  }
}

// An engine of cuDNN before 9.25, which has a workspace for the score gradients. The allocated bytes must
// equal the meta backend's count.
TEST_F(CudnnTest, TheWorkspaceOfAttentionIsThePredictedOne) {
  const std::int64_t samples = 3, heads = 6, length = 20, width = 6 * 8, head_bytes = length * length * 2;
  for (const auto& [cap, part] : {std::pair{18 * head_bytes, 18}, {6 * head_bytes, 6}, {2 * head_bytes, 2}}) {
    emulation::set_dnn_engines({{.workspace_bytes = static_cast<std::size_t>(part * head_bytes)}});
    const Rig rig(DeviceType::kCuda, 1);
    const DeviceArray qkv = rig.poisoned({samples, length, 3 * width}, DType::kBFloat16);
    const DeviceArray out = rig.poisoned({samples, length, width}, DType::kBFloat16),
                      dout = rig.poisoned({samples, length, width}, DType::kBFloat16),
                      dqkv = rig.poisoned({samples, length, 3 * width}, DType::kBFloat16);
    const DeviceArray lse = rig.poisoned({samples, heads, length});
    const AttentionBwdArgs args{
        .dout = dout, .qkv = qkv, .out = out, .lse = lse, .dqkv = dqkv, .num_heads = heads, .scale = 0.25f};
    cuda::AttentionLibrary library(cuda::make_cudnn_handle(cuda::stream_of(rig.exec()).get()),
                                   rig.shared_allocator(), cap);
    rig.allocator().reset_peak();
    const std::int64_t before = rig.allocator().stats().current[MemoryCategory::kWorkspace];
    EXPECT_TRUE(library.run_bwd(args));
    EXPECT_EQ(rig.allocator().stats().peak[MemoryCategory::kWorkspace] - before,
              attention_bwd_workspace(args, cap))
        << part << " heads at a time";
  }
}

struct GroupedAttention {
  std::int64_t samples = 3, length = 16;
  int heads = 6, kv_heads = 2;
  std::int64_t packed() const { return (heads + 2 * kv_heads) * std::int64_t{8}; }
  std::int64_t width() const { return heads * std::int64_t{8}; }
  std::int64_t score_bytes() const { return samples * heads * length * length * 2; }
  std::int64_t gradient_bytes() const { return samples * length * 2 * width() * 2; }

  std::vector<float> numbers(std::int64_t count, std::int64_t period) const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i * 7 % period) / 64);
    return values;
  }
  // Output and gradient in `dtype`. In fp32 they come from the native kernels. `backward` replaces the op.
  std::array<std::vector<float>, 2> run(
      const Rig& rig, DType dtype, const std::function<void(const AttentionBwdArgs&)>& backward = {}) const {
    const DeviceArray qkv = rig.upload({samples, length, packed()}, numbers(samples * length * packed(), 61),
                                       dtype),
                      dout = rig.upload({samples, length, width()}, numbers(samples * length * width(), 53),
                                        dtype);
    const DeviceArray out = rig.poisoned({samples, length, width()}, dtype),
                      lse = rig.poisoned({samples, heads, length}),
                      dqkv = rig.poisoned({samples, length, packed()}, dtype);
    rig.run(AttentionFwdArgs{
        .qkv = qkv, .out = out, .lse = lse, .num_heads = heads, .num_kv_heads = kv_heads, .scale = 0.25f});
    const AttentionBwdArgs args{.dout = dout,
                                .qkv = qkv,
                                .out = out,
                                .lse = lse,
                                .dqkv = dqkv,
                                .num_heads = heads,
                                .num_kv_heads = kv_heads,
                                .scale = 0.25f};
    backward ? backward(args) : rig.run(args);
    return {out.download(), dqkv.download()};
  }
};

// See [Note: grouped queries on cuda]. Results match the native kernels up to the rounding of the factors; a
// key head's gradient is a sum of rounded gradients.
TEST_F(CudnnTest, GroupedQueriesAreTheLibrarys) {
  const GroupedAttention grouped;
  emulation::set_dnn_engines(
      {{.workspace_bytes = static_cast<std::size_t>(grouped.score_bytes() + grouped.gradient_bytes())}});
  const Rig rig(DeviceType::kCuda, 1);
  const int before = dnn_counts().runs;
  ::testing::internal::CaptureStdout();
  const auto results = grouped.run(rig, DType::kBFloat16, [&](const AttentionBwdArgs& args) {
    rig.allocator().reset_peak();
    const std::int64_t used = rig.allocator().stats().current[MemoryCategory::kWorkspace];
    rig.run(args);
    EXPECT_EQ(rig.allocator().stats().peak[MemoryCategory::kWorkspace] - used, attention_bwd_workspace(args));
    EXPECT_GT(attention_bwd_workspace(args), 0);
  });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(dnn_counts().runs - before, 2);
  const auto expected = grouped.run(rig, DType::kFloat32);
  for (std::size_t r = 0; r < results.size(); ++r) {
    ASSERT_EQ(results[r].size(), expected[r].size());
    for (std::size_t i = 0; i < expected[r].size(); ++i) {
      EXPECT_NEAR(results[r][i], expected[r][i], 0.02f * (1.0f + std::abs(expected[r][i]))) << r << " " << i;
    }
  }
}

// A library without an engine for fewer key heads computes on copies, which is logged once for each pass.
// Copies are made for a sample at a time, so that they need no more memory than predicted.
TEST_F(CudnnTest, GroupedQueriesThatAreRefusedAreCopied) {
  const GroupedAttention grouped;
  emulation::set_dnn_engines({{}});
  const auto by_counts = grouped.run(Rig(DeviceType::kCuda, 1), DType::kBFloat16);
  emulation::set_dnn_engines({{.groups_heads = false}});
  const Rig rig(DeviceType::kCuda, 1);
  const int before = dnn_counts().runs;
  ::testing::internal::CaptureStdout();
  const auto first = grouped.run(rig, DType::kBFloat16);
  const auto second = grouped.run(rig, DType::kBFloat16);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(dnn_counts().runs - before, 2 * (1 + 3));
  for (std::size_t r = 0; r < first.size(); ++r) {
    EXPECT_TRUE(same_bits(first[r], by_counts[r])) << r;
    EXPECT_TRUE(same_bits(second[r], by_counts[r])) << r;
  }
  const std::string sentence = "keys and values are copied for each head of queries";
  for (const char* pass : {"forward", "backward"}) {
    const std::string refusal = fmt::format("{} of [3, 6 on 2 heads, 16, 8]", pass);
    const std::size_t at = said.find(refusal);
    ASSERT_NE(at, std::string::npos) << said;
    EXPECT_EQ(said.rfind(refusal), at) << said;
    EXPECT_NE(said.find(sentence, at), std::string::npos) << said;
  }
}

// A part is samples, or groups of a sample. A part of less than a group needs copies.
TEST_F(CudnnTest, GroupedQueriesGoInPartsOfWholeGroups) {
  const GroupedAttention grouped;
  const Rig rig(DeviceType::kCuda, 1);
  emulation::set_dnn_engines({{}});
  const std::int64_t head_bytes = grouped.length * grouped.length * 2;
  const std::vector<float> whole = grouped.run(rig, DType::kBFloat16)[1];
  struct Cap {
    std::int64_t heads;
    int parts;
  };
  for (const auto& [heads, parts] : {Cap{18, 1}, Cap{17, 3}, Cap{6, 3}, Cap{5, 6}, Cap{3, 6}, Cap{2, 0}}) {
    SCOPED_TRACE(heads);
    const int before = dnn_counts().runs;
    const auto results = grouped.run(rig, DType::kBFloat16, [&](const AttentionBwdArgs& args) {
      cuda::AttentionLibrary library(cuda::make_cudnn_handle(cuda::stream_of(rig.exec()).get()),
                                     rig.shared_allocator(), heads * head_bytes);
      EXPECT_EQ(library.run_bwd(args), parts > 0);
    });
    EXPECT_EQ(same_bits(results[1], whole), parts > 0);
    EXPECT_EQ(dnn_counts().runs - before, 1 + parts);
  }
}

// See [Note: intermediates of attention].
TEST_F(CudnnTest, AttentionIsAskedAgainWithFp32Intermediates) {
  emulation::set_dnn_engines({{.is_wide = true}});
  EXPECT_EQ(library_calls(64), 2);
}

// The same note: backward is first requested in the types of cuDNN's own frontend.
TEST_F(CudnnTest, AttentionsBackwardIsAskedAsTheFrontendAsks) {
  emulation::set_dnn_engines({{.widens = true}});
  EXPECT_EQ(library_calls(64), 1) << "backward alone";
  emulation::set_dnn_engines({{}});
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(library_calls(64), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

// The same note, for engines marked as nondeterministic: a trial accepts or rejects them, once per shape.
TEST_F(CudnnTest, AttentionTakesAMarkedEngineThatRepeatsItsBits) {
  const emulation::DnnEngine marked{.notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
      steady{.notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, .repeats = true};
  emulation::set_dnn_engines({marked});
  ::testing::internal::CaptureStdout();
  {
    const Rig rig(DeviceType::kCuda, 1);
    attend(rig);
    const int runs = dnn_counts().runs;
    attend(rig);
    EXPECT_EQ(dnn_counts().runs, runs) << "refused once, tried again";
  }
  std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, ::testing::HasSubstr("as nondeterministic; it does not repeat its bits"));
  EXPECT_THAT(said, ::testing::HasSubstr("has no fitting engine for deterministic attention, bf16 forward"));

  emulation::set_dnn_engines({marked, steady});
  ::testing::internal::CaptureStdout();
  const Rig rig(DeviceType::kCuda, 1);
  attend(rig);
  const int runs = dnn_counts().runs;
  attend(rig);
  EXPECT_EQ(dnn_counts().runs, runs + 1);
  said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(
      said, ::testing::HasSubstr("marks proposal 1 for deterministic attention, bf16 forward of [1, 2 heads, "
                                 "8, 8] as nondeterministic; it repeats its bits in a trial, and is taken"));

  // Engines that need no trial come first, in whatever order they are proposed. Backward does the same.
  emulation::set_dnn_engines({steady, {}});
  ::testing::internal::CaptureStdout();
  attend(Rig(DeviceType::kCuda, 1));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  emulation::set_dnn_engines({steady});
  EXPECT_GT(library_calls(64), 2) << "a trial, and a call of each";
}

TEST_F(CudnnTest, AttentionThatNoLibraryTakesIsNamedOnce) {
  const Rig rig(DeviceType::kCuda, 1);
  const auto attend_with = [&](std::int64_t head_dim, float dropout_p) {
    const Shape shape{1, 8, 2 * head_dim};
    const DeviceArray qkv =
        rig.upload({1, 8, 6 * head_dim}, std::vector<float>(static_cast<std::size_t>(48 * head_dim), 0.5f),
                   DType::kBFloat16);
    const DeviceArray out = rig.poisoned(shape, DType::kBFloat16), lse = rig.poisoned({1, 2, 8});
    rig.run(AttentionFwdArgs{
        .qkv = qkv, .out = out, .lse = lse, .num_heads = 2, .scale = 1.0f, .dropout_p = dropout_p});
  };
  const int runs = dnn_counts().runs;
  ::testing::internal::CaptureStdout();
  for (int i = 0; i < 2; ++i) {
    attend_with(20, 0.0f);
    attend_with(16, 0.25f);
  }
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(dnn_counts().runs, runs);
  for (const char* problem :
       {"no library takes bf16 attention of heads of 20 elements, no multiple of 8; ",
        "no library takes bf16 attention with dropout; the slower native kernel runs"}) {
    EXPECT_NE(said.find(problem), std::string::npos) << said;
    EXPECT_EQ(said.find(problem), said.rfind(problem)) << said;
  }
}

// See [Note: defects of cuDNN's attention].
TEST_F(CudnnTest, WhatAVersionGetsWrongOwnKernelsDo) {
  EXPECT_EQ(library_calls(65), 2);
  EXPECT_EQ(library_calls(1), 1) << "no backward of a single token";
  emulation::set_dnn_version(91500);
  EXPECT_EQ(library_calls(65), 1);
  EXPECT_EQ(library_calls(128), 2);
  for (const std::size_t version : {91000, 91001}) {
    emulation::set_dnn_version(version);
    EXPECT_EQ(library_calls(128), 0);
  }
  emulation::set_dnn_version(90900);
  EXPECT_EQ(library_calls(128), 2);
}

}  // namespace
}  // namespace trireme::testing
