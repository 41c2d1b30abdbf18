// Gradients of ops::lstm against finite differences, and its input errors.
#include "runtime/ops/lstm.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/reshape.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

constexpr ops::LstmParameters kLayer{{0}, {1}, {2}, {3}};

std::vector<ParameterSpec> layer_of(std::int64_t inputs, std::int64_t units) {
  return {{.name = "w_ih", .shape = {4 * units, inputs}},
          {.name = "w_hh", .shape = {4 * units, units}},
          {.name = "b_ih", .shape = {4 * units}},
          {.name = "b_hh", .shape = {4 * units}}};
}

TEST(LstmGradients, OneLayer) {
  for (const std::int64_t steps : {1, 4}) {
    testing::expect_gradients(
        {.parameters = layer_of(3, 5), .input = {2, steps, 3}, .op = [](Context& ctx, const Tensor& x) {
           return ops::lstm(ctx, x, kLayer).output;
         }});
  }
}

// The state is a function of the input, so its gradient is a part of the input's.
TEST(LstmGradients, InitialState) {
  std::vector<ParameterSpec> parameters = layer_of(3, 5);
  parameters.push_back({.name = "to_h", .shape = {5, 6}});
  parameters.push_back({.name = "to_c", .shape = {5, 6}});
  testing::expect_gradients(
      {.parameters = parameters, .input = {2, 2, 3}, .op = [](Context& ctx, const Tensor& x) {
         const Tensor flat = ops::reshape(ctx, x, {2, 6});
         const ops::LstmState initial{ops::linear(ctx, flat, {4}), ops::linear(ctx, flat, {5})};
         return ops::lstm(ctx, x, kLayer, initial).output;
       }});
}

// The second use adds to the gradients of the first.
TEST(LstmGradients, SharedByTwoLayers) {
  testing::expect_gradients(
      {.parameters = layer_of(5, 5), .input = {3, 3, 5}, .op = [](Context& ctx, const Tensor& x) {
         return ops::lstm(ctx, ops::lstm(ctx, x, kLayer).output, kLayer).output;
       }});
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << i;
}

// A sequence in two calls. The product of the inputs depends on their number in its last bits.
TEST(Lstm, ContinuesFromAState) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    const float tolerance = mode == PrecisionMode::kFp32 ? 2e-6f : 2e-2f;
    Context ctx = Context::create({DeviceType::kCpu}, 2);
    ctx.precision = Precision(mode);
    LocalParameters parameters(ctx, layer_of(4, 9), "op", 3);
    ctx.parameters = &parameters;
    for (int p = 0; p < 4; ++p) {
      const Tensor value = parameters.value({p});
      const auto values = testing::random_values(value.num_elems(), 100 + static_cast<std::uint64_t>(p));
      ctx.backend->copy_from_host(ctx.exec, value, values.data());
    }
    const auto values = testing::random_values(5 * 4, 7);
    const auto steps = [&](std::int64_t first, std::int64_t count) {
      return ctx.from_host(values.data() + first * 4, {1, count, 4}, DType::kFloat32);
    };
    const ops::LstmResult whole = ops::lstm(ctx, steps(0, 5), kLayer);
    const ops::LstmResult head = ops::lstm(ctx, steps(0, 2), kLayer);
    const ops::LstmResult tail = ops::lstm(ctx, steps(2, 3), kLayer, head.last);
    EXPECT_EQ(whole.output.dtype(), ctx.precision.compute_dtype());
    EXPECT_EQ(whole.last.c.dtype(), DType::kFloat32);
    std::vector<float> joined = ctx.to_host(head.output);
    for (const float value : ctx.to_host(tail.output)) joined.push_back(value);
    expect_near(joined, ctx.to_host(whole.output), tolerance);
    expect_near(ctx.to_host(tail.last.h), ctx.to_host(whole.last.h), tolerance);
    expect_near(ctx.to_host(tail.last.c), ctx.to_host(whole.last.c), tolerance);
    const std::vector<float> all = ctx.to_host(whole.output), last = ctx.to_host(whole.last.h);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), all.end() - 9)) << "h of the last step";
  }
}

TEST(Lstm, RefusesShapesThatDoNotFit) {
  Context ctx = Context::create({DeviceType::kMeta}, 1);
  LocalParameters parameters(ctx, layer_of(3, 5), "op", 0);
  ctx.parameters = &parameters;
  const auto expect_refused = [&](const std::string& text, const std::function<void()>& call) {
    try {
      call();
      FAIL() << "accepted; wanted: " << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidInput);
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  const auto x = [&] { return ctx.empty({2, 4, 3}); };
  expect_refused("lstm: input [2, 3] is not [B, T, I]", [&] { ops::lstm(ctx, ctx.empty({2, 3}), kLayer); });
  expect_refused("lstm: input [2, 0, 3] is not [B, T, I]", [&] {
    ops::lstm(ctx, ctx.empty({2, 0, 3}), kLayer);
  });
  expect_refused("does not fit weight [20, 3]", [&] { ops::lstm(ctx, ctx.empty({2, 4, 5}), kLayer); });
  expect_refused("lstm: w_hh [20, 3] and b_hh [20] do not fit 20 rows", [&] {
    ops::lstm(ctx, x(), {{0}, {0}, {2}, {3}});
  });
  expect_refused("lstm: initial state [2, 3] does not fit 2 samples of 5 units", [&] {
    ops::lstm(ctx, x(), kLayer, {.h = ctx.empty({2, 3}), .c = {}});
  });
}

}  // namespace
}  // namespace trireme
