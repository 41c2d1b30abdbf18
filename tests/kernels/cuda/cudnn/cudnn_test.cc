// The graphs that attention and convolutions ask of cuDNN, played by emulation/cudnn.cc. That their results
// are right, the conformance suite shows beside these tests: the engines that the emulation proposes first
// break it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/product_workspace.h"
#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/cudnn_emulation.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

using emulation::dnn_counts;

class CudnnTest : public ::testing::Test {
 protected:
  ~CudnnTest() override {
    emulation::set_dnn_engines({});
    emulation::set_dnn_version(91900);
  }

  // y of a 3 x 3 convolution of 4 channels whose input is 1 and whose weight is `weight`: inside of the
  // borders 36 times the weight.
  static std::vector<float> convolve(const Rig& rig, std::int64_t extent, float weight = 0.5f,
                                     MathMode math = MathMode::kFp32) {
    const auto ones = [&](const Shape& shape, float value) {
      return rig.upload(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elems()), value));
    };
    const DeviceArray x = ones({1, extent, extent, 4}, 1.0f), w = ones({2, 4, 3, 3}, weight);
    const DeviceArray y = rig.poisoned({1, extent, extent, 2});
    rig.run(
        Conv2dFwdArgs{.x = x, .weight = w, .y = y, .geometry = {.stride = 1, .padding = 1}, .math = math});
    return y.download();
  }
  // The gradient of a 3 x 3 weight from ones in bf16, twice added: of the middle pixel twice the pixels of y.
  static float weight_gradient(const Rig& rig, std::int64_t extent, std::int64_t channels) {
    const auto ones = [&](const Shape& shape, DType dtype) {
      return rig.upload(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elems()), 1.0f), dtype);
    };
    const DeviceArray x = ones({1, extent, extent, channels}, DType::kBFloat16),
                      dy = ones({1, extent, extent, 2}, DType::kBFloat16),
                      dweight = rig.poisoned({2, channels, 3, 3});
    for (const GradientMode mode : {GradientMode::kOverwrite, GradientMode::kAccumulate}) {
      rig.run(Conv2dBwdWeightArgs{
          .dy = dy, .x = x, .dweight = dweight, .geometry = {.stride = 1, .padding = 1}, .mode = mode});
    }
    const std::vector<float> all = dweight.download();
    EXPECT_EQ(all.front(), all[all.size() - 9]);
    EXPECT_EQ(all.front(), static_cast<float>(2 * (extent - 1) * (extent - 1))) << "of a corner";
    return all[4];
  }
  static void attend(const Rig& rig) {
    const DeviceArray qkv =
        rig.upload({1, 8, 3 * 16}, std::vector<float>(8 * 3 * 16, 0.5f), DType::kBFloat16);
    const DeviceArray out = rig.poisoned({1, 8, 16}, DType::kBFloat16), lse = rig.poisoned({1, 2, 8});
    rig.run(AttentionFwdArgs{.qkv = qkv, .out = out, .lse = lse, .num_heads = 2, .scale = 1.0f});
    for (const float value : out.download()) EXPECT_EQ(value, 0.5f);
  }
  // The number of forwards and backwards of a sequence that the library has run.
  static int library_calls(std::int64_t length) {
    const Rig rig(DeviceType::kCuda, 1);
    const auto half = [&](const Shape& shape) {
      return rig.upload(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elems()), 0.5f),
                        DType::kBFloat16);
    };
    const DeviceArray qkv = half({1, length, 3 * 8}), dout = half({1, length, 8});
    const DeviceArray out = rig.poisoned({1, length, 8}, DType::kBFloat16),
                      lse = rig.poisoned({1, 1, length});
    const DeviceArray dqkv = rig.poisoned({1, length, 3 * 8}, DType::kBFloat16);
    const int before = dnn_counts().runs;
    rig.run(AttentionFwdArgs{.qkv = qkv, .out = out, .lse = lse, .num_heads = 1, .scale = 1.0f});
    rig.run(AttentionBwdArgs{
        .dout = dout, .qkv = qkv, .out = out, .lse = lse, .dqkv = dqkv, .num_heads = 1, .scale = 1.0f});
    EXPECT_EQ(out.download().front(), 0.5f);
    return dnn_counts().runs - before;
  }
};

TEST_F(CudnnTest, OneHandleServesAllOpsOfAStream) {
  const int before = dnn_counts().handles, alive = dnn_counts().live_handles, runs = dnn_counts().runs;
  {
    const Rig rig(DeviceType::kCuda, 1);
    EXPECT_EQ(dnn_counts().handles, before) << "made before it is needed";
    convolve(rig, 5);
    attend(rig);
    EXPECT_EQ(dnn_counts().handles, before + 1);
    EXPECT_EQ(dnn_counts().runs, runs + 2);
  }
  EXPECT_EQ(dnn_counts().live_handles, alive);
}

TEST_F(CudnnTest, EnginesAreChosenOnceAShape) {
  const Rig rig(DeviceType::kCuda, 1);
  convolve(rig, 5);
  const int asked = dnn_counts().heuristics;
  for (int i = 0; i < 3; ++i) convolve(rig, 5);
  EXPECT_EQ(dnn_counts().heuristics, asked);
  convolve(rig, 6);
  EXPECT_GT(dnn_counts().heuristics, asked);
}

// A call gets the precision that it asks for: 1 + 2^-12 is 1 in tf32.
TEST_F(CudnnTest, TensorCoresRoundFp32OnlyWhenAsked) {
  const Rig rig(DeviceType::kCuda, 1);
  const float weight = 1.0f + 0x1p-12f;
  const std::size_t inside = 2 * (5 * 2 + 2);
  EXPECT_EQ(convolve(rig, 5, weight)[inside], 36.0f * weight);
  EXPECT_EQ(convolve(rig, 5, weight, MathMode::kTf32)[inside], 36.0f);
}

TEST_F(CudnnTest, WhatNoEngineMayDoOwnKernelsDo) {
  for (const auto& engine : {emulation::DnnEngine{.notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
                             emulation::DnnEngine{.workspace_bytes = (std::size_t{1} << 30) + 1},
                             emulation::DnnEngine{.builds = false}}) {
    emulation::set_dnn_engines({engine});
    const int runs = dnn_counts().runs;
    EXPECT_EQ(convolve(Rig(DeviceType::kCuda, 1), 5)[24], 18.0f);
    EXPECT_EQ(dnn_counts().runs, runs);
  }
}

// What says nothing about the problem must not choose another engine: other ranks would not choose it.
TEST_F(CudnnTest, ALackOfMemoryIsNoRefusal) {
  emulation::set_dnn_engines({{.lacks_memory = true}, {}});
  const Rig rig(DeviceType::kCuda, 1);
  for (const auto& call : {std::function<void()>([&] { convolve(rig, 5); }), {[&] { attend(rig); }}}) {
    try {
      call();
      ADD_FAILURE() << "another engine was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
    }
  }
}

// What is built may be refused when it runs: the next proposal takes its place for good, and says so once.
TEST_F(CudnnTest, ARefusalAtRunTimeIsNotTheEnd) {
  emulation::set_dnn_engines({{.runs = false}, {.runs = false}, {.workspace_bytes = 64}});
  const Rig rig(DeviceType::kCuda, 1);
  const int refusals = dnn_counts().refusals, runs = dnn_counts().runs;
  ::testing::internal::CaptureStdout();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(convolve(rig, 5)[24], 18.0f);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(dnn_counts().refusals, refusals + 2);
  EXPECT_EQ(dnn_counts().runs, runs + 3);
  for (const char* proposal : {"proposal 0.0 ", "proposal 0.1 "}) {
    const std::size_t at = said.find(proposal);
    ASSERT_NE(at, std::string::npos) << said;
    EXPECT_EQ(said.find(proposal, at + 1), std::string::npos) << said;
  }
}

TEST_F(CudnnTest, WhatIsRefusedToTheLastOwnKernelsDo) {
  emulation::set_dnn_engines({{.runs = false}, {.runs = false}});
  const int refusals = dnn_counts().refusals, runs = dnn_counts().runs;
  const Rig rig(DeviceType::kCuda, 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(convolve(rig, 5)[24], 18.0f);
    attend(rig);
  }
  EXPECT_EQ(library_calls(128), 0);
  EXPECT_EQ(dnn_counts().runs, runs);
  EXPECT_EQ(dnn_counts().refusals, refusals + 2 * (1 + 2 * 2 + 3))
      << "two of each graph: of a convolution one, of two attentions forward two each, backward three";
}

// See [Note: results of another type].
TEST_F(CudnnTest, SixteenBitGradientsHaveFp32Results) {
  emulation::set_dnn_engines({{.is_classic = true}, {.workspace_bytes = 64}});
  int runs = dnn_counts().runs;
  EXPECT_EQ(weight_gradient(Rig(DeviceType::kCuda, 1), 20, 5), 800.0f);
  EXPECT_EQ(dnn_counts().runs, runs + 2) << "by a graph of two operations";
  emulation::set_dnn_engines({{.is_classic = true}});
  runs = dnn_counts().runs;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(weight_gradient(Rig(DeviceType::kCuda, 1), 20, 5), 800.0f);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(dnn_counts().runs, runs);
  EXPECT_NE(said.find("products of gathered windows run"), std::string::npos) << said;
  EXPECT_EQ(said.find("fitting engine"), said.rfind("fitting engine")) << said;
  EXPECT_EQ(convolve(Rig(DeviceType::kCuda, 1), 5)[24], 18.0f) << "fp32 has one type";
  EXPECT_EQ(dnn_counts().runs, runs + 1);
}

TEST_F(CudnnTest, GatheredWindowsComeInChunks) {
  emulation::set_dnn_engines({{.builds = false}});
  const Rig rig(DeviceType::kCuda, 1);
  EXPECT_EQ(weight_gradient(rig, 62, 512), 2.0f * 62 * 62);
  EXPECT_LT(rig.allocator().stats().peak[MemoryCategory::kWorkspace], std::int64_t{96} << 20);
}

// See [Note: parts of an attention]: of 3 samples and 6 heads, whose scores take 512 bytes each.
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

// An engine of cuDNN before 9.25, which has a workspace for the scores' gradients: what the meta backend
// counts is what is held.
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

// See [Note: intermediates of attention].
TEST_F(CudnnTest, AttentionIsAskedAgainWithFp32Intermediates) {
  emulation::set_dnn_engines({{.is_wide = true}});
  EXPECT_EQ(library_calls(64), 2);
}

// The same note: of backward first in the types of cuDNN's own frontend.
TEST_F(CudnnTest, AttentionsBackwardIsAskedAsTheFrontendAsks) {
  emulation::set_dnn_engines({{.widens = true}});
  EXPECT_EQ(library_calls(64), 1) << "backward alone";
  emulation::set_dnn_engines({{}});
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(library_calls(64), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

// The same note, on engines that are marked as nondeterministic: a trial tells them apart, once a shape.
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

  // What needs no trial goes before, wherever it is proposed; backward goes the same way.
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

// The same engine on every rank and in every run: the first that fits, whatever its speed.
TEST_F(CudnnTest, TheFirstThatFitsIsTaken) {
  emulation::set_dnn_engines({{.notes = {CUDNN_NUMERICAL_NOTE_FFT}},
                              {.workspace_bytes = 100},
                              {.workspace_bytes = 0},
                              {.workspace_bytes = 0, .is_fallback = true}});
  const Rig rig(DeviceType::kCuda, 1);
  convolve(rig, 5);
  // The packed weight and the engine's own, at once.
  EXPECT_EQ(
      rig.allocator().stats().peak[MemoryCategory::kWorkspace],
      static_cast<std::int64_t>(Allocator::rounded(2 * 4 * 3 * 3 * sizeof(float)) + Allocator::rounded(100)));
}

// Beside that of the engine.
TEST_F(CudnnTest, TheWorkspaceOfConvolutionsIsThePredictedOne) {
  emulation::set_dnn_engines({{.workspace_bytes = 640}});
  const Rig rig(DeviceType::kCuda, 1);
  const auto expect_as_predicted = [&](const auto& args) {
    rig.run(args);
    rig.allocator().reset_peak();
    const std::int64_t before = rig.allocator().stats().current[MemoryCategory::kWorkspace];
    rig.run(args);
    EXPECT_EQ(rig.allocator().stats().peak[MemoryCategory::kWorkspace] - before, conv_workspace(args) + 640);
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    const DeviceArray x = rig.poisoned({1, 9, 9, 8}, dtype), w = rig.poisoned({16, 8, 3, 3}, dtype),
                      y = rig.poisoned({1, 9, 9, 16}, dtype), bias = rig.poisoned({16}, dtype),
                      dx = rig.poisoned({1, 9, 9, 8}, dtype);
    const ConvGeometry geometry{.stride = 1, .padding = 1};
    expect_as_predicted(Conv2dFwdArgs{.x = x, .weight = w, .y = y, .geometry = geometry});
    expect_as_predicted(Conv2dFwdArgs{.x = x, .weight = w, .bias = bias, .y = y, .geometry = geometry});
    expect_as_predicted(Conv2dBwdDataArgs{.dy = y, .weight = w, .dx = dx, .geometry = geometry});
    for (const DeviceArray* add : {&x, &dx}) {
      const Conv2dBwdDataArgs args{.dy = y, .weight = w, .dx_add = *add, .dx = dx, .geometry = geometry};
      expect_as_predicted(args);
      EXPECT_GT(conv_workspace(args), dtype == DType::kFloat16 || add == &dx ? 4 * 9 * 9 * 8 : 0);
    }
  }
}

TEST_F(CudnnTest, NoPlanIsBuiltInARecordedStep) {
  const Rig rig(DeviceType::kCuda, 1);
  convolve(rig, 5);
  const DeviceArray x = rig.upload({1, 6, 6, 4}, std::vector<float>(144, 1.0f));
  const DeviceArray w = rig.upload({2, 4, 3, 3}, std::vector<float>(72, 0.5f)),
                    y = rig.poisoned({1, 6, 6, 2});
  const int asked = dnn_counts().heuristics;
  rig->begin_capture(rig.exec());
  try {
    rig.run(Conv2dFwdArgs{.x = x, .weight = w, .y = y, .geometry = {.stride = 1, .padding = 1}});
    ADD_FAILURE() << "built in a recorded step";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kRuntime);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("a step is being recorded, and "));
  }
  rig->end_capture(rig.exec());
  EXPECT_EQ(dnn_counts().heuristics, asked);
}

TEST_F(CudnnTest, RunsInRecordedSteps) {
  const Rig rig(DeviceType::kCuda, 1);
  const std::vector<float> expected = convolve(rig, 5);
  const DeviceArray x = rig.upload({1, 5, 5, 4}, std::vector<float>(100, 1.0f));
  const DeviceArray w = rig.upload({2, 4, 3, 3}, std::vector<float>(72, 0.5f)),
                    y = rig.poisoned({1, 5, 5, 2});
  rig->begin_capture(rig.exec());
  rig.run(Conv2dFwdArgs{.x = x, .weight = w, .y = y, .geometry = {.stride = 1, .padding = 1}});
  const auto graph = rig->end_capture(rig.exec());
  EXPECT_FALSE(same_bits(y.download(), expected)) << "ran while it was recorded";
  rig->launch_graph(rig.exec(), graph);
  EXPECT_TRUE(same_bits(y.download(), expected));
}

}  // namespace
}  // namespace trireme::testing
