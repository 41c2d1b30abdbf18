// Calls of attention and convolutions, for tests of the graphs that they request from cuDNN.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/cuda/emulation/cudnn_emulation.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {

using emulation::dnn_counts;

class CudnnTest : public ::testing::Test {
 protected:
  ~CudnnTest() override {
    emulation::set_dnn_engines({});
    emulation::set_dnn_version(91900);
  }

  // y of a 3 x 3 convolution of 4 channels with inputs 1 and weights `weight`. Inside the borders y is 36
  // times the weight.
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
  // The gradient of a 3 x 3 weight from ones in bf16, accumulated twice. Its middle is twice the number of
  // pixels of y.
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
  struct Convolution {
    Shape x, weight;
    ConvGeometry geometry;
  };
  // Number of library runs for y, dx, dx with an addend and dweight, all from ones. Also checks the results.
  static int library_runs(const Convolution& c, DType dtype) {
    const Rig rig(DeviceType::kCuda, 1);
    const ConvGeometry& g = c.geometry;
    const auto ones = [&](const Shape& shape) {
      return rig.upload(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elems()), 1.0f), dtype);
    };
    const Shape y_shape{c.x[0], (c.x[1] + 2 * g.padding - c.weight[2]) / g.stride + 1,
                        (c.x[2] + 2 * g.padding - c.weight[3]) / g.stride + 1, c.weight[0]};
    const DeviceArray x = ones(c.x), w = ones(c.weight), dy = ones(y_shape);
    const DeviceArray y = rig.poisoned(y_shape, dtype), dx = rig.poisoned(c.x, dtype),
                      sum = rig.poisoned(c.x, dtype), dw = rig.poisoned(c.weight);
    const int before = dnn_counts().runs;
    rig.run(Conv2dFwdArgs{.x = x, .weight = w, .y = y, .geometry = g});
    rig.run(Conv2dBwdDataArgs{.dy = dy, .weight = w, .dx = dx, .geometry = g});
    rig.run(Conv2dBwdDataArgs{.dy = dy, .weight = w, .dx_add = x, .dx = sum, .geometry = g});
    rig.run(Conv2dBwdWeightArgs{.dy = dy, .x = x, .dweight = dw, .geometry = g});
    // Each term of y is also a term of one channel's dx, and of dweight.
    const auto total = [](const DeviceArray& array) {
      double all = 0;
      for (const float value : array.download()) all += value;
      return all;
    };
    EXPECT_EQ(total(y), total(dx));
    EXPECT_EQ(total(y), total(dw));
    EXPECT_EQ(total(sum), total(dx) + static_cast<double>(c.x.num_elems()));
    return dnn_counts().runs - before;
  }
  static void attend(const Rig& rig) {
    const DeviceArray qkv =
        rig.upload({1, 8, 3 * 16}, std::vector<float>(8 * 3 * 16, 0.5f), DType::kBFloat16);
    const DeviceArray out = rig.poisoned({1, 8, 16}, DType::kBFloat16), lse = rig.poisoned({1, 2, 8});
    rig.run(AttentionFwdArgs{.qkv = qkv, .out = out, .lse = lse, .num_heads = 2, .scale = 1.0f});
    for (const float value : out.download()) EXPECT_EQ(value, 0.5f);
  }
  // Number of forwards and backwards of a sequence that ran in the library.
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

}  // namespace trireme::testing
