// The graphs that convolutions request from cuDNN, and how they and attention's run, on emulation/cudnn.cc.
// The conformance suite, run with the same emulation, checks the results. The engines that the emulation
// proposes first would break it.
#include "tests/kernels/cuda/cudnn/cudnn_test.h"

#include <gmock/gmock.h>

#include <functional>

#include "kernels/product_workspace.h"
#include "runtime/base/error.h"

namespace trireme::testing {
namespace {

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

// Each call gets the precision that it requests: 1 + 2^-12 is 1 in tf32.
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

// A failure that is independent of the problem must not select another engine, as other ranks would not
// select it.
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

// A built plan may be refused when it runs. The next proposal then replaces it permanently, with one log
// line.
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
  EXPECT_EQ(weight_gradient(Rig(DeviceType::kCuda, 1), 20, 9), 800.0f);
  EXPECT_EQ(dnn_counts().runs, runs + 2) << "by a graph of two operations";
  emulation::set_dnn_engines({{.is_classic = true}});
  runs = dnn_counts().runs;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(weight_gradient(Rig(DeviceType::kCuda, 1), 20, 9), 800.0f);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(dnn_counts().runs, runs);
  EXPECT_NE(said.find("products of gathered windows run"), std::string::npos) << said;
  EXPECT_EQ(said.find("fitting engine"), said.rfind("fitting engine")) << said;
  EXPECT_EQ(convolve(Rig(DeviceType::kCuda, 1), 5)[24], 18.0f) << "fp32 has one type";
  EXPECT_EQ(dnn_counts().runs, runs + 1);
}

// See [Note: padded channels].
TEST_F(CudnnTest, SixteenBitImagesOfOddChannelsArePadded) {
  const Convolution odd{.x = {2, 9, 7, 11}, .weight = {8, 11, 3, 3}, .geometry = {.stride = 2, .padding = 1}};
  emulation::set_dnn_engines({{.workspace_bytes = 64, .wants_eights = true}});
  EXPECT_EQ(library_runs(odd, DType::kFloat16), 4) << "forward, two data gradients, weight gradient";
  EXPECT_EQ(library_runs(odd, DType::kBFloat16), 4);
  EXPECT_EQ(library_runs(odd, DType::kFloat32), 0);
  Convolution other = odd;
  other.weight = {6, 11, 3, 3};
  EXPECT_EQ(library_runs(other, DType::kFloat16), 0) << "nothing is won with outputs that are not";
  other = {.x = {2, 5, 5, 12}, .weight = {8, 3, 3, 3}, .geometry = {.stride = 1, .padding = 1, .groups = 4}};
  EXPECT_EQ(library_runs(other, DType::kFloat16), 0) << "groups stay";
}

// See [Note: gathered windows].
TEST_F(CudnnTest, SixteenBitImagesOfFewChannelsAreGathered) {
  const Convolution stem{.x = {2, 9, 7, 3}, .weight = {8, 3, 3, 3}, .geometry = {.stride = 2, .padding = 1}};
  emulation::set_dnn_engines({{}});
  EXPECT_EQ(library_runs(stem, DType::kFloat16), 2) << "data gradients";
  EXPECT_EQ(library_runs(stem, DType::kBFloat16), 2);
  EXPECT_EQ(library_runs(stem, DType::kFloat32), 4);
}

// Padded or not, an engine that supports the unpadded problem is used.
TEST_F(CudnnTest, WhatIsRefusedPaddedIsAskedAsItIs) {
  const Convolution odd{.x = {2, 9, 7, 11}, .weight = {8, 11, 3, 3}, .geometry = {.stride = 2, .padding = 1}};
  emulation::set_dnn_engines({{.wants_odds = true}});
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(library_runs(odd, DType::kFloat16), 4);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(said.find("padded from 11 channels (no engine is proposed); the images are tried as they are"),
            std::string::npos)
      << said;
  emulation::set_dnn_engines({{.runs = false}});
  const int refusals = dnn_counts().refusals;
  EXPECT_EQ(library_runs(odd, DType::kFloat16), 0);
  EXPECT_EQ(dnn_counts().refusals, refusals + 2 * (1 + 1 + 2 + 2))
      << "padded and not: of what has two types there are two graphs";
}

// See [Note: defects of cuDNN's convolutions].
TEST_F(CudnnTest, WeightGradientsOfOnePixelWithPaddingAreNotTheLibrarys) {
  emulation::set_dnn_engines({{}});
  Convolution pixel{.x = {1, 5, 5, 8}, .weight = {8, 8, 1, 1}, .geometry = {.stride = 1, .padding = 1}};
  for (const std::int64_t groups : {1, 4}) {
    pixel.geometry.groups = groups;
    pixel.weight = {8, 8 / groups, 1, 1};
    for (const DType dtype : kFloatTypes) {
      ::testing::internal::CaptureStdout();
      EXPECT_EQ(library_runs(pixel, dtype), 3) << "forward and data gradients";
      const std::string said = ::testing::internal::GetCapturedStdout(),
                        reason = "(an engine computes weight gradients of one pixel with padding wrongly); ";
      const std::size_t at = said.find(reason);
      ASSERT_NE(at, std::string::npos) << said;
      EXPECT_EQ(said.find(reason, at + 1), std::string::npos) << said;
    }
  }
  pixel.weight = {8, 8, 3, 1}, pixel.geometry.groups = 1;
  EXPECT_EQ(library_runs(pixel, DType::kFloat16), 4);
}

// See [Note: strided pixels].
TEST_F(CudnnTest, DataGradientsOfStridedPixelsAreProducts) {
  emulation::set_dnn_engines({{}});
  const Convolution shortcut{.x = {2, 7, 8, 16}, .weight = {8, 16, 1, 1}, .geometry = {.stride = 2}};
  for (const DType dtype : kFloatTypes) {
    EXPECT_EQ(library_runs(shortcut, dtype), 2) << "forward and weight gradient";
  }
}

TEST_F(CudnnTest, GatheredWindowsComeInChunks) {
  emulation::set_dnn_engines({{.builds = false}});
  const Rig rig(DeviceType::kCuda, 1);
  EXPECT_EQ(weight_gradient(rig, 62, 512), 2.0f * 62 * 62);
  EXPECT_LT(rig.allocator().stats().peak[MemoryCategory::kWorkspace], std::int64_t{96} << 20);
}

// Chunks of 48,768 windows of 7 x 7 x 7, out of 50,176. All values are ones; corner windows read 4 x 4
// pixels, the rest 7 x 7.
TEST_F(CudnnTest, WindowsOfFewChannelsComeInChunks) {
  constexpr std::int64_t kExtent = 224;
  const Rig rig(DeviceType::kCuda, 1);
  const auto ones = [&](const Shape& shape) {
    return rig.upload(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elems()), 1.0f),
                      DType::kFloat16);
  };
  const DeviceArray x = ones({1, kExtent, kExtent, 7}), w = ones({5, 7, 7, 7}), bias = ones({5});
  const DeviceArray y = rig.poisoned({1, kExtent, kExtent, 5}, DType::kFloat16);
  rig.run(Conv2dFwdArgs{.x = x, .weight = w, .bias = bias, .y = y, .geometry = {.stride = 1, .padding = 3}});
  const std::vector<float> all = y.download();
  const auto seen = [](std::int64_t place) {
    return std::min({place + 4, std::int64_t{7}, kExtent - place + 3});
  };
  for (std::int64_t i = 0; i < kExtent; ++i) {
    for (std::int64_t j = 0; j < kExtent; ++j) {
      const auto at = static_cast<std::size_t>((i * kExtent + j) * 5);
      ASSERT_EQ(all[at], static_cast<float>(7 * seen(i) * seen(j) + 1)) << i << ", " << j;
      ASSERT_EQ(all[at + 4], all[at]);
    }
  }
}

// The same engine on every rank and in every run: the first that fits, independent of its speed.
TEST_F(CudnnTest, TheFirstThatFitsIsTaken) {
  emulation::set_dnn_engines({{.notes = {CUDNN_NUMERICAL_NOTE_FFT}},
                              {.workspace_bytes = 100},
                              {.workspace_bytes = 0},
                              {.workspace_bytes = 0, .is_fallback = true}});
  const Rig rig(DeviceType::kCuda, 1);
  convolve(rig, 5);
  // The packed weight and the engine's workspace, at the same time.
  EXPECT_EQ(
      rig.allocator().stats().peak[MemoryCategory::kWorkspace],
      static_cast<std::int64_t>(Allocator::rounded(2 * 4 * 3 * 3 * sizeof(float)) + Allocator::rounded(100)));
}

// In addition to the engine's workspace, if an engine runs.
TEST_F(CudnnTest, TheWorkspaceOfConvolutionsIsThePredictedOne) {
  emulation::set_dnn_engines({{.workspace_bytes = 640}});
  const Rig rig(DeviceType::kCuda, 1);
  const auto expect_as_predicted = [&](const auto& args, bool gathers = false) {
    rig.run(args);
    rig.allocator().reset_peak();
    const std::int64_t before = rig.allocator().stats().current[MemoryCategory::kWorkspace];
    rig.run(args);
    EXPECT_EQ(rig.allocator().stats().peak[MemoryCategory::kWorkspace] - before,
              conv_workspace(args) + (gathers ? 0 : 640));
  };
  for (const std::int64_t channels : {8, 3, 12}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      const DeviceArray x = rig.poisoned({1, 9, 9, channels}, dtype),
                        w = rig.poisoned({16, channels, 3, 3}, dtype), y = rig.poisoned({1, 9, 9, 16}, dtype),
                        bias = rig.poisoned({16}, dtype), dx = rig.poisoned({1, 9, 9, channels}, dtype),
                        dw = rig.poisoned({16, channels, 3, 3});
      const ConvGeometry geometry{.stride = 1, .padding = 1};
      const bool gathers = channels == 3 && dtype == DType::kFloat16;
      expect_as_predicted(Conv2dFwdArgs{.x = x, .weight = w, .y = y, .geometry = geometry}, gathers);
      expect_as_predicted(Conv2dFwdArgs{.x = x, .weight = w, .bias = bias, .y = y, .geometry = geometry},
                          gathers);
      expect_as_predicted(Conv2dBwdDataArgs{.dy = y, .weight = w, .dx = dx, .geometry = geometry});
      for (const DeviceArray* add : {&x, &dx}) {
        const Conv2dBwdDataArgs args{.dy = y, .weight = w, .dx_add = *add, .dx = dx, .geometry = geometry};
        expect_as_predicted(args);
        EXPECT_GT(conv_workspace(args), dtype == DType::kFloat16 || add == &dx ? 4 * 9 * 9 * channels : 0);
      }
      expect_as_predicted(Conv2dBwdWeightArgs{.dy = y, .x = x, .dweight = dw, .geometry = geometry}, gathers);
    }
  }
}

// The workspace is the product's.
TEST_F(CudnnTest, TheWorkspaceOfStridedPixelsIsThePredictedOne) {
  const Rig rig(DeviceType::kCuda, 1);
  for (const DType dtype : kFloatTypes) {
    const DeviceArray x = rig.poisoned({3, 9, 8, 16}, dtype), w = rig.poisoned({8, 16, 1, 1}, dtype),
                      dy = rig.poisoned({3, 5, 4, 8}, dtype), dx = rig.poisoned({3, 9, 8, 16}, dtype);
    for (const ConstTensorView& add : {ConstTensorView{}, ConstTensorView(x), ConstTensorView(dx)}) {
      const Conv2dBwdDataArgs args{.dy = dy, .weight = w, .dx_add = add, .dx = dx, .geometry = {.stride = 2}};
      rig.run(args);
      rig.allocator().reset_peak();
      const std::int64_t before = rig.allocator().stats().current[MemoryCategory::kWorkspace];
      rig.run(args);
      EXPECT_EQ(rig.allocator().stats().peak[MemoryCategory::kWorkspace] - before, conv_workspace(args));
      EXPECT_EQ(conv_workspace(args),
                charged_bytes(3 * 5 * 4 * 16 * (add.defined() ? 4 : size_bytes(dtype))));
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
