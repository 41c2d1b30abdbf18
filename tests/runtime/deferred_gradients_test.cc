// A backward in two parts gives the bits of a single one, keeps only the necessary tensors, and frees them.
#include "runtime/deferred_gradients.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/local_parameters.h"
#include "runtime/ops/add.h"
#include "runtime/ops/conv2d.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/lstm.h"
#include "runtime/tape.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

// A resolver whose parameter values are unavailable, as after a release in an engine.
class TargetsAlone final : public ParameterResolver {
 public:
  explicit TargetsAlone(ParameterResolver& parameters) : parameters_(parameters) {}
  Tensor value(ParamRef) override { throw Error(ErrorCode::kRuntime, "the parameters are released"); }
  GradientTarget gradient(ParamRef ref) override { return parameters_.gradient(ref); }
  const Adapter* adapter(ParamRef weight) const override { return parameters_.adapter(weight); }

 private:
  ParameterResolver& parameters_;
};

struct Model {
  std::vector<ParameterSpec> parameters;
  std::function<Tensor(Context& ctx, const Tensor& x)> forward;
  Shape input = {6, 8};
};

struct Result {
  std::vector<std::vector<float>> parameters, input;
  bool operator==(const Result&) const = default;
};

enum class Parts { kOne, kTwo };

// Live activation bytes: before the forward, between the two parts and after them.
struct Alive {
  std::int64_t before = 0, between = 0, after = 0;
};

Result differentiate(const Model& model, Parts parts, Alive* alive = nullptr) {
  Context ctx = Context::create({DeviceType::kCpu}, 2);
  ctx.training = true;
  LocalParameters params(ctx, model.parameters, "op", 3);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const auto values = testing::random_values(model.parameters[p].shape.num_elems(), 100 + p);
    ctx.backend->copy_from_host(ctx.exec, params.value({static_cast<int>(p)}), values.data());
  }
  const auto bytes = [&](MemoryCategory category) { return ctx.allocator->stats().current[category]; };
  Alive counted{.before = bytes(MemoryCategory::kActivations)};
  const std::int64_t gradients = bytes(MemoryCategory::kGradients);
  Result result;
  {
    ctx.parameters = &params;
    Tape tape;
    ctx.tape = &tape;
    const auto x_values = testing::random_values(model.input.num_elems(), 11);
    Tensor x = tape.watch(ctx.from_host(x_values.data(), model.input, DType::kFloat32));
    Tensor y = model.forward(ctx, x);
    const auto dy = testing::random_values(y.num_elems(), 17);
    std::vector<Tape::Seed> seeds{{y.id(), ctx.from_host(dy.data(), y.shape(), DType::kFloat32)}};
    const ValueId input = x.id();
    x = y = Tensor();
    DeferredGradients deferred;
    StagedParameters staged(ctx, params, deferred);
    Context back = ctx;
    if (parts == Parts::kTwo) back.parameters = &staged, back.deferred = &deferred;
    for (const Tensor& dx : tape.backward(back, std::move(seeds), {input})) {
      if (dx.defined()) result.input.push_back(ctx.to_host(dx));
    }
    counted.between = bytes(MemoryCategory::kActivations);
    TargetsAlone targets(params);
    back.parameters = &targets;
    deferred.run(back);
    counted.after = bytes(MemoryCategory::kActivations);
    EXPECT_EQ(bytes(MemoryCategory::kGradients), gradients) << "staged gradients are left";
  }
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    result.parameters.push_back(ctx.to_host(params.gradient_of({static_cast<int>(p)})));
  }
  if (alive != nullptr) *alive = counted;
  return result;
}

const std::vector<ParameterSpec> kParameters = {{.name = "up", .shape = {8, 8}},
                                                {.name = "bias", .shape = {8}},
                                                {.name = "gamma", .shape = {8}},
                                                {.name = "beta", .shape = {8}},
                                                {.name = "down", .shape = {8, 8}}};

// The gradient of the residual is also the gradient of the products' result: it may be overwritten only after
// both parts have read it. The norm's gains and one weight are used twice.
Tensor residual_block(Context& ctx, const Tensor& x) {
  const Tensor a = ops::layer_norm(ctx, x, {2}, {3});
  const Tensor b = ops::linear(ctx, a, {0}, {.bias = {1}, .activation = Activation::kGeluTanh});
  const Tensor c = ops::linear(ctx, b, {4}, {.residual = x});
  const Tensor d = ops::linear(ctx, ops::layer_norm(ctx, c, {2}, {3}), {4}, {.bias = {1}, .residual = c});
  return ops::add(ctx, d, x);
}

TEST(DeferredGradients, TwoPartsGiveTheBitsOfOne) {
  const Model model{.parameters = kParameters, .forward = residual_block};
  const Result one = differentiate(model, Parts::kOne), two = differentiate(model, Parts::kTwo);
  EXPECT_EQ(one.input.size(), 1u);
  EXPECT_EQ(two, one);
}

TEST(DeferredGradients, SoDoImagesAndTokens) {
  const Model images{
      .parameters = {{.name = "kernel", .shape = {5, 3, 3, 3}}, {.name = "bias", .shape = {5}}},
      .forward =
          [](Context& ctx, const Tensor& x) {
            return ops::conv2d(ctx, x, {0}, {.bias = {1}, .geometry = {.padding = 1}});
          },
      .input = {2, 6, 6, 3}};
  EXPECT_EQ(differentiate(images, Parts::kTwo), differentiate(images, Parts::kOne));
  const Model tokens{
      .parameters = {{.name = "table", .shape = {6, 8}}, {.name = "positions", .shape = {3, 8}}},
      .forward =
          [](Context& ctx, const Tensor& x) {
            const std::vector<std::int32_t> ids = {0, 5, 5, 2, 1, 0};
            const Tensor t = ctx.from_host(ids.data(), {2, 3}, DType::kInt32, MemoryCategory::kBatch);
            return ops::add(ctx, ops::embedding(ctx, t, {0}, {1}), x);
          },
      .input = {2, 3, 8}};
  EXPECT_EQ(differentiate(tokens, Parts::kTwo), differentiate(tokens, Parts::kOne));
}

// The second layer uses the parameters of the first.
TEST(DeferredGradients, SoDoRecurrences) {
  const Model model{.parameters = {{.name = "w_ih", .shape = {32, 8}},
                                   {.name = "w_hh", .shape = {32, 8}},
                                   {.name = "b_ih", .shape = {32}},
                                   {.name = "b_hh", .shape = {32}}},
                    .forward =
                        [](Context& ctx, const Tensor& x) {
                          const ops::LstmParameters layer{{0}, {1}, {2}, {3}};
                          return ops::lstm(ctx, ops::lstm(ctx, x, layer).output, layer).output;
                        },
                    .input = {2, 3, 8}};
  EXPECT_EQ(differentiate(model, Parts::kTwo), differentiate(model, Parts::kOne));
}

// Between the parts a product keeps its input and the gradient of its result, each 6 x 8 fp32.
TEST(DeferredGradients, HoldsTheOperandsOfTheProductsAndFreesThem) {
  Alive alive;
  const Model model{.parameters = {{.name = "first", .shape = {8, 8}}, {.name = "second", .shape = {8, 8}}},
                    .forward = [](Context& ctx, const Tensor& x) {
                      return ops::linear(ctx, ops::linear(ctx, x, {0}), {1});
                    }};
  differentiate(model, Parts::kTwo, &alive);
  EXPECT_EQ(alive.between - alive.before, 4 * 6 * 8 * 4);
  EXPECT_EQ(alive.after, alive.before);
  differentiate(model, Parts::kOne, &alive);
  EXPECT_EQ(alive.between, alive.before);
}

TEST(DeferredGradients, AParameterOfBothKindsOfOpsIsRefused) {
  const Model model{.parameters = {{.name = "weight", .shape = {8, 8}}, {.name = "shift", .shape = {8}}},
                    .forward = [](Context& ctx, const Tensor& x) {
                      return ops::linear(ctx, ops::layer_norm(ctx, x, {1}, {1}), {0}, {.bias = {1}});
                    }};
  EXPECT_NO_THROW(differentiate(model, Parts::kOne));
  try {
    differentiate(model, Parts::kTwo);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("parameter 1 [8] of the block"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme
