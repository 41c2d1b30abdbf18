// Checks the backward of image ops against finite differences, over strides, paddings, groups, odd sizes and
// images of one pixel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/ops/add.h"
#include "runtime/ops/batch_norm.h"
#include "runtime/ops/conv2d.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/pool.h"
#include "runtime/ops/relu.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

using testing::expect_gradients;

/// +-0.05, +-0.15, ... in random order: during a check no two of them, and none and zero, become equal.
std::vector<float> apart(std::int64_t count) {
  constexpr float kSpacing = 0.1f;
  static_assert(kSpacing / 2 > testing::kLargestMove);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(kSpacing * (static_cast<float>(i - count / 2) + 0.5f));
  }
  std::shuffle(values.begin(), values.end(), std::mt19937(7));
  return values;
}

bool fits(const Shape& image, std::int64_t height, std::int64_t width, std::int64_t padding) {
  return image[1] + 2 * padding >= height && image[2] + 2 * padding >= width;
}

struct Image {
  std::int64_t height, width;
};
constexpr Image kImages[] = {{1, 1}, {5, 7}, {4, 4}};

TEST(ImageGradientSweep, Conv2d) {
  constexpr std::int64_t kChannels = 6;
  struct Kernel {
    std::int64_t height, width, outputs, groups;
  };
  constexpr Kernel kKernels[] = {{1, 1, 4, 1}, {3, 3, 9, 3}, {2, 3, 12, kChannels}, {3, 3, 5, 1}};
  int num_cases = 0;
  for (const Image& image : kImages) {
    for (const Kernel& kernel : kKernels) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t padding : {0, 1, 2}) {
          const Shape input{2, image.height, image.width, kChannels};
          if (!fits(input, kernel.height, kernel.width, padding)) continue;
          const Shape weight{kernel.outputs, kChannels / kernel.groups, kernel.height, kernel.width};
          const ConvGeometry geometry{.stride = stride, .padding = padding, .groups = kernel.groups};
          SCOPED_TRACE(fmt::format("input {}, weight {}, stride {}, padding {}, groups {}", input.to_string(),
                                   weight.to_string(), stride, padding, kernel.groups));
          const bool bias = ++num_cases % 2 == 0;
          std::vector<ParameterSpec> parameters = {{.name = "weight", .shape = weight}};
          if (bias) parameters.push_back({.name = "bias", .shape = {kernel.outputs}});
          expect_gradients(
              {.parameters = parameters, .input = input, .op = [&](Context& ctx, const Tensor& x) {
                 return ops::conv2d(ctx, x, {0},
                                    {.bias = bias ? ParamRef{1} : ParamRef{}, .geometry = geometry});
               }});
        }
      }
    }
  }
  EXPECT_GT(num_cases, 80);
}

TEST(ImageGradientSweep, Pools) {
  struct Window {
    std::int64_t height, width;
  };
  int num_cases = 0;
  for (const Image& image : kImages) {
    for (const Window& size : {Window{1, 1}, {2, 2}, {3, 3}, {2, 3}}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t padding : {0, 1}) {
          const Shape input{2, image.height, image.width, 3};
          const bool allowed = 2 * padding <= std::min(size.height, size.width);
          if (!allowed || !fits(input, size.height, size.width, padding)) continue;
          const PoolWindow window{
              .height = size.height, .width = size.width, .stride = stride, .padding = padding};
          SCOPED_TRACE(fmt::format("input {}, window {} x {}, stride {}, padding {}", input.to_string(),
                                   size.height, size.width, stride, padding));
          ++num_cases;
          expect_gradients(
              {.input = input,
               .op = [&](Context& ctx, const Tensor& x) { return ops::max_pool(ctx, x, window); },
               .input_values = apart(input.num_elems())});
          expect_gradients({.input = input, .op = [&](Context& ctx, const Tensor& x) {
                              return ops::avg_pool(ctx, x, window);
                            }});
        }
      }
    }
    const Shape input{3, image.height, image.width, 5};
    expect_gradients(
        {.input = input, .op = [](Context& ctx, const Tensor& x) { return ops::global_pool(ctx, x); }});
  }
  EXPECT_GT(num_cases, 40);
}

TEST(ImageGradientSweep, Relu) {
  for (const Shape& shape : {Shape{2, 1, 1, 3}, Shape{2, 5, 7, 3}, Shape{33}}) {
    expect_gradients({.input = shape,
                      .op = [](Context& ctx, const Tensor& x) { return ops::relu(ctx, x); },
                      .input_values = apart(shape.num_elems())});
  }
}

// With the rectifier in the same pass. Its argument must not change sign: the inputs of a channel are near -1
// and +1, so normalised ones are, too, and gains and shifts keep them away from zero.
TEST(ImageGradientSweep, BatchNormWithRectifier) {
  for (const Shape& shape : {Shape{8, 1, 1, 3}, Shape{2, 5, 7, 3}, Shape{3, 4, 4, 3}}) {
    SCOPED_TRACE(shape.to_string());
    std::vector<float> x = testing::random_values(shape.num_elems(), 3);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = 0.1f * std::clamp(x[i], -1.5f, 1.5f) + (i / 3 % 2 == 0 ? 1.0f : -1.0f);
    }
    expect_gradients(
        {.parameters = {{.name = "gamma", .shape = {3}}, {.name = "beta", .shape = {3}}},
         .input = shape,
         .op = [](Context& ctx,
                  const Tensor& t) { return ops::batch_norm(ctx, t, {0}, {1}, {.rectify = Rectify::kYes}); },
         .input_values = x,
         .parameter_values = {{1.0f, -0.8f, 1.2f}, {0.25f, -0.2f, 0.3f}}});
  }
}

// The residual is the input plus a constant that moves it far from zero on either side.
TEST(ImageGradientSweep, BatchNormWithResidualAndRectifier) {
  for (const Shape& shape : {Shape{7, 1, 1, 4}, Shape{2, 3, 5, 4}}) {
    SCOPED_TRACE(shape.to_string());
    std::vector<float> offset;
    for (std::int64_t i = 0; i < shape.num_elems(); ++i) offset.push_back(i / 2 % 3 == 0 ? -20.0f : 20.0f);
    for (const Rectify rectify : {Rectify::kNo, Rectify::kYes}) {
      expect_gradients({.parameters = {{.name = "gamma", .shape = {4}}, {.name = "beta", .shape = {4}}},
                        .input = shape,
                        .op = [&](Context& ctx, const Tensor& x) {
                          const Tensor far = ctx.from_host(offset.data(), shape, DType::kFloat32);
                          return ops::batch_norm(ctx, x, {0}, {1},
                                                 {.residual = ops::add(ctx, x, far), .rectify = rectify});
                        }});
    }
  }
}

TEST(ImageGradientSweep, LabelSmoothing) {
  const std::vector<std::int32_t> targets = {4, -1, 0, 2, 2};
  for (const float smoothing : {0.0f, 0.1f, 0.9f}) {
    expect_gradients({.parameters = {{.name = "weight", .shape = {5, 3}}},
                      .input = {5, 3},
                      .op = [&](Context& ctx, const Tensor& x) {
                        const Tensor t =
                            ctx.from_host(targets.data(), {5}, DType::kInt32, MemoryCategory::kBatch);
                        return ops::softmax_cross_entropy(ctx, ops::linear(ctx, x, {0}), t, 0.25f,
                                                          {.label_smoothing = smoothing});
                      }});
  }
}

}  // namespace
}  // namespace trireme
