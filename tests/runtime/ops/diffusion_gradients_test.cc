// Gradients of the ops of diffusion networks against finite differences, and their input errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "runtime/base/error.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/add.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/concat.h"
#include "runtime/ops/conv2d.h"
#include "runtime/ops/cross_attention.h"
#include "runtime/ops/group_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/mul.h"
#include "runtime/ops/reshape.h"
#include "runtime/ops/squared_error.h"
#include "runtime/ops/time_embedding.h"
#include "runtime/ops/upsample.h"
#include "runtime/tape.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

using testing::expect_gradients;

const std::vector<ParameterSpec> kNorm{{.name = "weight", .shape = {6}}, {.name = "bias", .shape = {6}}};

TEST(DiffusionGradients, GroupNorm) {
  for (const Activation activation : {Activation::kNone, Activation::kSilu}) {
    for (const std::int64_t groups : {1, 2, 6}) {
      for (const Shape& input : {Shape{2, 3, 4, 6}, Shape{3, 5, 6}}) {
        expect_gradients({.parameters = kNorm, .input = input, .op = [=](Context& ctx, const Tensor& x) {
                            return ops::group_norm(ctx, x, {0}, {1}, groups, 1e-5f, activation);
                          }});
      }
    }
  }
}

// The norm's backward adds into the gradient of the other use of x.
TEST(DiffusionGradients, GroupNormBesideAResidual) {
  expect_gradients({.parameters = kNorm, .input = {2, 2, 3, 6}, .op = [](Context& ctx, const Tensor& x) {
                      const Tensor y = ops::group_norm(ctx, x, {0}, {1}, 3, 1e-6f, Activation::kSilu);
                      return ops::add(ctx, y, x);
                    }});
}

TEST(DiffusionGradients, SiluAloneAndInALinear) {
  expect_gradients({.input = {6, 9}, .op = [](Context& ctx, const Tensor& x) {
                      return ops::activation(ctx, x, Activation::kSilu);
                    }});
  expect_gradients({.parameters = {{.name = "weight", .shape = {9, 4}}, {.name = "bias", .shape = {9}}},
                    .input = {6, 4},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::linear(ctx, x, {0}, {.bias = {1}, .activation = Activation::kSilu});
                    }});
}

TEST(DiffusionGradients, Mul) {
  expect_gradients(
      {.parameters = {{.name = "weight", .shape = {5, 5}}},
       .input = {3, 5},
       .op = [](Context& ctx, const Tensor& x) { return ops::mul(ctx, ops::linear(ctx, x, {0}), x); }});
  expect_gradients(
      {.input = {3, 5}, .op = [](Context& ctx, const Tensor& x) { return ops::mul(ctx, x, x); }});
}

TEST(DiffusionGradients, UpsampleAndConcat) {
  expect_gradients({.parameters = {{.name = "weight", .shape = {3, 2}}},
                    .input = {2, 3, 2, 2},
                    .op = [](Context& ctx, const Tensor& x) {
                      const Tensor wide = ops::linear(ctx, x, {0});
                      return ops::concat_channels(ctx, ops::upsample_nearest(ctx, wide),
                                                  ops::upsample_nearest(ctx, x));
                    }});
}

// The strided convolution of diffusers' Downsample2D pads (0, 1, 0, 1).
TEST(DiffusionGradients, ConvolutionPaddedAtTheEnd) {
  for (const Shape& input : {Shape{2, 6, 4, 3}, Shape{1, 5, 7, 3}}) {
    expect_gradients(
        {.parameters = {{.name = "weight", .shape = {4, 3, 3, 3}}, {.name = "bias", .shape = {4}}},
         .input = input,
         .op = [](Context& ctx, const Tensor& x) {
           const Tensor y =
               ops::conv2d(ctx, x, {0}, {.bias = {1}, .geometry = {.stride = 2, .padding_after = 1}});
           EXPECT_EQ(y.shape()[1], x.shape()[1] / 2);
           return y;
         }});
  }
}

// Keys and values are functions of the input, of another length.
TEST(DiffusionGradients, CrossAttention) {
  for (const std::int64_t queries : {1, 4}) {
    expect_gradients({.parameters = {{.name = "k", .shape = {6, 3}}, {.name = "v", .shape = {6, 3}}},
                      .input = {2, queries, 6},
                      .op = [](Context& ctx, const Tensor& x) {
                        const Tensor context = ops::reshape(ctx, x, {2, 2 * x.shape()[1], 3});
                        return ops::cross_attention(ctx, x, ops::linear(ctx, context, {0}),
                                                    ops::linear(ctx, context, {1}), 2);
                      }});
  }
}

TEST(DiffusionGradients, SquaredError) {
  for (const bool has_weights : {false, true}) {
    expect_gradients(
        {.parameters = {{.name = "weight", .shape = {4, 5}}},
         .input = {3, 2, 5},
         .op = [=](Context& ctx, const Tensor& x) {
           const auto values = testing::random_values(3 * 2 * 4, 11);
           const std::vector<float> weights = {0.3f, 2.0f, 0.7f};
           const Tensor target =
               ctx.from_host(values.data(), {3, 2, 4}, DType::kFloat32, MemoryCategory::kBatch);
           const Tensor w = ctx.from_host(weights.data(), {3}, DType::kFloat32, MemoryCategory::kBatch);
           return ops::squared_error(ctx, ops::linear(ctx, x, {0}), target, has_weights ? w : Tensor(), 0.5f);
         }});
  }
}

// A prediction that is used elsewhere keeps its values.
TEST(SquaredError, CopiesASharedPrediction) {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  Tape tape;
  ctx.tape = &tape;
  const std::vector<float> values = {1, 2, 3, 4}, targets = {0, 0, 1, 1};
  const Tensor x = tape.watch(ctx.from_host(values.data(), {2, 2}, DType::kFloat32));
  const Tensor target = ctx.from_host(targets.data(), {2, 2}, DType::kFloat32);
  const Tensor loss = ops::squared_error(ctx, x, target, {}, 0.5f);
  EXPECT_EQ(ctx.to_host(loss)[0], 0.5f * (2.5f + 6.5f));
  EXPECT_EQ(ctx.to_host(x), values);
  EXPECT_EQ(ctx.to_host(ops::sample_squared_errors(ctx, x, target)), (std::vector<float>{2.5f, 6.5f}));
  const Tensor dx = tape.backward(ctx, {{loss.id(), {}}}, {x.id()})[0];
  EXPECT_EQ(ctx.to_host(dx), (std::vector<float>{0.5f, 1.0f, 1.0f, 1.5f}));
}

// The gradient, not the loss, is scaled, before it is rounded to 16 bits.
TEST(SquaredError, ScalesTheGradientBeforeItIsRounded) {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  Tape tape;
  ctx.tape = &tape;
  const float scale = 0x1p20f, value = 1.0f;
  ctx.gradient_scale = ctx.from_host(&scale, {}, DType::kFloat32);
  const Tensor wide = ctx.from_host(&value, {1, 1}, DType::kFloat32);
  const Tensor x = tape.watch(ops::cast(ctx, wide, DType::kFloat16));
  const float target = 1.0f - 0x1p-10f;
  const Tensor loss =
      ops::squared_error(ctx, x, ctx.from_host(&target, {1, 1}, DType::kFloat32), {}, 0x1p-20f);
  EXPECT_EQ(ctx.to_host(loss)[0], 0x1p-40f);
  EXPECT_EQ(ctx.to_host(tape.backward(ctx, {{loss.id(), {}}}, {x.id()})[0])[0], 0x1p-9f);
}

void expect_error(const std::function<void(Context&, const Tensor& images)>& run, const std::string& text) {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  LocalParameters parameters(ctx, kNorm, "op", 3);
  ctx.parameters = &parameters;
  const Tensor images = ctx.zeros({2, 3, 4, 6});
  try {
    run(ctx, images);
    ADD_FAILURE() << "no error with " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  }
}

TEST(DiffusionOps, NameShapesThatDoNotFit) {
  expect_error([](Context& ctx, const Tensor& x) { ops::group_norm(ctx, x, {0}, {1}, 4, 1e-5f); },
               "not [B, ..., C] with C a multiple of 4 groups");
  expect_error(
      [](Context& ctx, const Tensor&) {
        ops::group_norm(ctx, ctx.zeros({2, 3, 8}), {0}, {1}, 4, 1e-5f);
      },
      "does not fit weight [6]");
  expect_error(
      [](Context& ctx, const Tensor& x) { ops::group_norm(ctx, x, {0}, {1}, 3, 1e-5f, Activation::kTanh); },
      "applies SiLU or no activation");
  expect_error(
      [](Context& ctx, const Tensor& x) {
        ops::upsample_nearest(ctx, x.reshape({6, 24}));
      },
      "needs images [B, H, W, C], got [6, 24]");
  expect_error(
      [](Context& ctx, const Tensor& x) {
        ops::concat_channels(ctx, x, ctx.zeros({2, 3, 5, 6}));
      },
      "differ in more than the last dim");
  expect_error([](Context& ctx, const Tensor& x) { ops::mul(ctx, x, ctx.zeros({2, 3})); }, "differ");
  expect_error(
      [](Context& ctx, const Tensor& x) {
        ops::squared_error(ctx, x, ctx.zeros({2, 3}), {}, 1.0f);
      },
      "not two equal shapes");
  expect_error([](Context& ctx, const Tensor& x) { ops::squared_error(ctx, x, x, ctx.zeros({3}), 1.0f); },
               "2 samples want as many fp32 weights, got fp32 [3]");
  expect_error([](Context& ctx, const Tensor&) { ops::time_embedding(ctx, ctx.zeros({2}), 2); },
               "dim / 2 must exceed the shift");
  expect_error(
      [](Context& ctx, const Tensor& x) {
        const Tensor q = x.reshape({2, 12, 6});
        ops::cross_attention(ctx, q, q, x.reshape({2, 6, 12}), 2);
      },
      "do not fit queries [2, 12, 6]");
  expect_error(
      [](Context& ctx, const Tensor& x) {
        const Tensor q = x.reshape({2, 12, 6});
        ops::cross_attention(ctx, q, q, q, 4);
      },
      "with 4 heads");
}

}  // namespace
}  // namespace trireme
