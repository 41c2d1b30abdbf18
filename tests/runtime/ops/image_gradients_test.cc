// Checks the backward of image ops against finite differences, and their input errors.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/ops/add.h"
#include "runtime/ops/batch_norm.h"
#include "runtime/ops/conv2d.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/pool.h"
#include "runtime/ops/relu.h"
#include "runtime/ops/reshape.h"
#include "runtime/ops/sequence_pool.h"
#include "runtime/ops/shift_channels.h"
#include "runtime/ops/token_positions.h"
#include "runtime/tape.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

using testing::expect_gradients;

TEST(ImageGradients, Conv2d) {
  struct Case {
    Shape input, weight;
    ConvGeometry geometry;
  };
  for (const Case& c : {Case{{2, 5, 7, 3}, {4, 3, 3, 3}, {.stride = 1, .padding = 1}},
                        {{3, 6, 5, 4}, {6, 2, 3, 3}, {.stride = 2, .padding = 1, .groups = 2}},
                        {{2, 1, 1, 5}, {3, 5, 1, 1}, {}},
                        {{2, 5, 5, 6}, {4, 6, 1, 1}, {.stride = 2}},
                        {{1, 9, 8, 3}, {5, 3, 7, 7}, {.stride = 2, .padding = 3}},
                        {{2, 4, 4, 4}, {4, 1, 3, 3}, {.stride = 1, .padding = 1, .groups = 4}}}) {
    SCOPED_TRACE(c.input.to_string() + " " + c.weight.to_string());
    expect_gradients(
        {.parameters = {{.name = "weight", .shape = c.weight}, {.name = "bias", .shape = {c.weight[0]}}},
         .input = c.input,
         .op = [&](Context& ctx, const Tensor& x) {
           return ops::conv2d(ctx, x, {0}, {.bias = {1}, .geometry = c.geometry});
         }});
  }
}

// Without the rectifier, because finite differences must not step across its kink.
TEST(ImageGradients, BatchNorm) {
  for (const bool residual : {false, true}) {
    expect_gradients({.parameters = {{.name = "gamma", .shape = {6}}, {.name = "beta", .shape = {6}}},
                      .input = {3, 4, 5, 6},
                      .op = [residual](Context& ctx, const Tensor& x) {
                        return ops::batch_norm(ctx, x, {0}, {1}, {.residual = residual ? x : Tensor()});
                      }});
  }
}

TEST(ImageGradients, Pools) {
  expect_gradients({.input = {2, 7, 6, 3}, .op = [](Context& ctx, const Tensor& x) {
                      return ops::avg_pool(ctx, x, {.height = 3, .width = 2, .stride = 2, .padding = 1});
                    }});
  expect_gradients(
      {.input = {2, 3, 5, 4}, .op = [](Context& ctx, const Tensor& x) { return ops::global_pool(ctx, x); }});
  expect_gradients(
      {.input = {1, 1, 1, 4}, .op = [](Context& ctx, const Tensor& x) { return ops::global_pool(ctx, x); }});
}

// The path from patches to tokens: reshape, first token, positions; the input is also used elsewhere.
TEST(ImageGradients, TokenPositions) {
  for (const bool has_first : {false, true}) {
    std::vector<ParameterSpec> parameters = {{.name = "positions", .shape = {1, has_first ? 7 : 6, 5}}};
    if (has_first) parameters.push_back({.name = "first", .shape = {1, 1, 5}});
    expect_gradients(
        {.parameters = parameters, .input = {3, 2, 3, 5}, .op = [has_first](Context& ctx, const Tensor& x) {
           const Tensor tokens = ops::reshape(ctx, ops::add(ctx, x, x), {3, 6, 5});
           const Tensor y = ops::token_positions(
               ctx, tokens, {.first = has_first ? ParamRef{1} : ParamRef{}, .positions = {0}});
           return ops::reshape(ctx, y, {3, y.num_elems() / 3});
         }});
  }
}

TEST(ImageGradients, SequencePool) {
  expect_gradients({.parameters = {{.name = "weight", .shape = {1, 5}}},
                    .input = {3, 6, 5},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::sequence_pool(ctx, x, ops::linear(ctx, x, {0}));
                    }});
}

// The shift follows from the same input, so that gradients of both are compared.
TEST(ImageGradients, ShiftChannels) {
  expect_gradients({.parameters = {{.name = "weight", .shape = {4, 4}}},
                    .input = {3, 2, 5, 4},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::shift_channels(ctx, x, ops::linear(ctx, ops::global_pool(ctx, x), {0}));
                    }});
}

// A pool that selects the first token.
TEST(ImageGradients, FirstToken) {
  expect_gradients({.input = {3, 1, 6, 5}, .op = [](Context& ctx, const Tensor& x) {
                      return ops::reshape(ctx, ops::avg_pool(ctx, x, {.stride = 6}), {3, 5});
                    }});
}

TEST(ImageGradients, SoftTargets) {
  expect_gradients(
      {.parameters = {{.name = "weight", .shape = {11, 5}}},
       .input = {4, 5},
       .op = [](Context& ctx, const Tensor& x) {
         const std::vector<std::int32_t> targets = {10, 0, 1, -1, 3, 3, 2, 7};
         const std::vector<float> weights = {0.3f, 0.7f, 1.0f, 0.5f, 0.25f, 0.5f, 0.9f, 0.1f};
         const Tensor t = ctx.from_host(targets.data(), {4, 2}, DType::kInt32, MemoryCategory::kBatch);
         const Tensor w = ctx.from_host(weights.data(), {4, 2}, DType::kFloat32, MemoryCategory::kBatch);
         return ops::softmax_cross_entropy(ctx, ops::linear(ctx, x, {0}), t, 0.25f,
                                           {.label_smoothing = 0.1f, .target_weights = w});
       }});
}

// Ops with kinks, compared with plain loops at one point.
class Kinks : public ::testing::Test {
 protected:
  // Gradient of sum(w y), for random w, with respect to the input; also computes the parameters' gradients.
  std::vector<float> input_gradient(const Shape& shape, const std::function<Tensor(const Tensor&)>& op) {
    ctx_.tape = &tape_;
    ctx_.training = true;
    x_ = testing::random_values(shape.num_elems(), 5);
    const Tensor x = tape_.watch(ctx_.from_host(x_.data(), shape, DType::kFloat32));
    const Tensor y = op(x);
    y_ = ctx_.to_host(y);
    w_ = testing::random_values(y.num_elems(), 6);
    const Tensor seed = ctx_.from_host(w_.data(), y.shape(), DType::kFloat32);
    return ctx_.to_host(tape_.backward(ctx_, {{y.id(), seed}}, {x.id()})[0]);
  }
  Context ctx_ = Context::create({DeviceType::kCpu}, 1);
  Tape tape_;
  std::vector<float> x_, y_, w_;
};

TEST_F(Kinks, Relu) {
  const auto dx = input_gradient({3, 50}, [&](const Tensor& x) { return ops::relu(ctx_, x); });
  for (std::size_t i = 0; i < dx.size(); ++i) {
    EXPECT_EQ(y_[i], std::max(0.0f, x_[i]));
    EXPECT_EQ(dx[i], x_[i] > 0 ? w_[i] : 0.0f);
  }
}

TEST_F(Kinks, MaxPool) {
  const auto dx = input_gradient({1, 4, 4, 1}, [&](const Tensor& x) {
    return ops::max_pool(ctx_, x, {.height = 2, .width = 2, .stride = 2});
  });
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t at = (i / 2 * 2 + k / 2) * 4 + i % 2 * 2 + k % 2;
      EXPECT_EQ(dx[at], x_[at] == y_[i] ? w_[i] : 0.0f);
    }
  }
}

// One pass with rectifier and residual equals separate ops.
TEST_F(Kinks, FusedBatchNormEqualsItsParts) {
  const std::vector<ParameterSpec> specs = {
      {.name = "gamma", .shape = {7}, .init = Initializer::normal(1.0f)},
      {.name = "beta", .shape = {7}, .init = Initializer::normal(1.0f)}};
  for (const bool residual : {false, true}) {
    LocalParameters params(ctx_, specs, "op", 3);
    ctx_.parameters = &params;
    const auto fused = input_gradient({40, 7}, [&](const Tensor& x) {
      return ops::batch_norm(ctx_, x, {0}, {1},
                             {.residual = residual ? x : Tensor(), .rectify = Rectify::kYes});
    });
    const std::vector<float> y = y_, dgamma = ctx_.to_host(params.gradient_of({0}));
    params.clear_gradients();
    const auto parts = input_gradient({40, 7}, [&](const Tensor& x) {
      const Tensor normed = ops::batch_norm(ctx_, x, {0}, {1});
      return ops::relu(ctx_, residual ? ops::add(ctx_, normed, x) : normed);
    });
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y[i], y_[i], 1e-5f);
      EXPECT_NEAR(fused[i], parts[i], 1e-5f);
    }
    const auto dgamma_of_parts = ctx_.to_host(params.gradient_of({0}));
    for (std::size_t c = 0; c < 7; ++c) EXPECT_NEAR(dgamma[c], dgamma_of_parts[c], 1e-4f);
  }
}

void expect_refused(const std::string& text, const std::function<void(Context&)>& call) {
  Context ctx = Context::create({DeviceType::kMeta}, 1);
  LocalParameters params(
      ctx, std::vector<ParameterSpec>{{.name = "w", .shape = {4, 3, 3, 3}}, {.name = "v", .shape = {4}}},
      "op", 0);
  ctx.parameters = &params;
  ctx.training = true;
  try {
    call(ctx);
    FAIL() << "accepted; wanted: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidInput);
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(ImageOpChecks, NameBothShapes) {
  expect_refused("conv2d: input [2, 5, 5, 4] does not fit weight [4, 3, 3, 3]", [](Context& c) {
    ops::conv2d(c, c.empty({2, 5, 5, 4}), {0});
  });
  expect_refused("conv2d: a kernel of 3 x 3 is larger than input [2, 2, 5, 3]", [](Context& c) {
    ops::conv2d(c, c.empty({2, 2, 5, 3}), {0});
  });
  expect_refused("conv2d: stride 0", [](Context& c) {
    ops::conv2d(c, c.empty({2, 5, 5, 3}), {0}, {.bias = {}, .geometry = {.stride = 0}});
  });
  expect_refused("conv2d: bias [4, 3, 3, 3] does not fit 4 outputs", [](Context& c) {
    ops::conv2d(c, c.empty({2, 5, 5, 3}), {0}, {.bias = {0}});
  });
  expect_refused("batch_norm: input [2, 5] does not fit gamma [4]", [](Context& c) {
    ops::batch_norm(c, c.empty({2, 5}), {1}, {1});
  });
  expect_refused("batch_norm: residual [3, 4] does not fit input [2, 4]", [](Context& c) {
    ops::batch_norm(c, c.empty({2, 4}), {1}, {1}, {.residual = c.empty({3, 4})});
  });
  expect_refused("batch_norm: there are no running statistics", [](Context& c) {
    c.training = false;
    ops::batch_norm(c, c.empty({2, 4}), {1}, {1});
  });
  expect_refused("batch_norm: running statistics have no gradient", [](Context& c) {
    Tape tape;
    c.training = false;
    c.tape = &tape;
    ops::batch_norm(c, c.empty({2, 4}), {1}, {1});
  });
  expect_refused("max_pool: needs images", [](Context& c) { ops::max_pool(c, c.empty({2, 5}), {}); });
  expect_refused("padding at most half", [](Context& c) {
    ops::max_pool(c, c.empty({2, 5, 5, 1}), {.height = 2, .width = 2, .padding = 2});
  });
  expect_refused("token_positions: 5 tokens of width 4 do not fit position table [4, 3, 3, 3]",
                 [](Context& c) {
                   ops::token_positions(c, c.empty({2, 5, 4}), {.positions = {0}});
                 });
  expect_refused("token_positions: a first token [4] does not fit tokens [2, 5, 3]", [](Context& c) {
    ops::token_positions(c, c.empty({2, 5, 3}), {.first = {1}, .positions = {0}});
  });
  expect_refused("shift_channels: a shift [2, 4] does not fit the input [2, 5, 3]", [](Context& c) {
    ops::shift_channels(c, c.empty({2, 5, 3}), c.empty({2, 4}));
  });
  expect_refused("sequence_pool: scores [2, 4] do not fit tokens [2, 5, 3]", [](Context& c) {
    ops::sequence_pool(c, c.empty({2, 5, 3}), c.empty({2, 4}));
  });
  expect_refused("larger than input", [](Context& c) {
    ops::avg_pool(c, c.empty({2, 5, 5, 1}), {.height = 6, .width = 2});
  });
  expect_refused("label_smoothing = 1", [](Context& c) {
    ops::softmax_cross_entropy(c, c.empty({2, 5}), c.empty({2}, DType::kInt32), 1.0f,
                               {.label_smoothing = 1.0f});
  });
  expect_refused("want as many fp32 weights", [](Context& c) {
    ops::softmax_cross_entropy(c, c.empty({2, 5}), c.empty({2}, DType::kInt32), 1.0f,
                               {.target_weights = c.empty({4})});
  });
}

// A missing table entry is an error that names the op and the device.
TEST(ImageOpChecks, AMissingEntryIsNamed) {
  Backend without = meta_backend();
  without.name = "half";
  without.ops.set<Conv2dFwdArgs>(nullptr);
  Context ctx = Context::create({DeviceType::kMeta}, 1, std::nullopt, &without);
  LocalParameters params(ctx, std::vector<ParameterSpec>{{.name = "w", .shape = {4, 3, 1, 1}}}, "op", 0);
  ctx.parameters = &params;
  try {
    ops::conv2d(ctx, ctx.empty({1, 2, 2, 3}), {0});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(e.what()).find("the device 'half' has no conv2d_fwd yet"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace trireme
