// The graphs that attention and convolutions ask of cuDNN, played by emulation/cudnn.cc. That their results
// are right, the conformance suite shows beside these tests: the engines that the emulation proposes first
// break it.
#include <gtest/gtest.h>

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
