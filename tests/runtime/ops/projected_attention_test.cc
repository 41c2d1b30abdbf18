// Selective recompute: gradients have the same bits when queries, keys and values are recomputed, and
// backward no longer keeps these three.
#include <gtest/gtest.h>

#include "runtime/deferred_gradients.h"
#include "runtime/local_parameters.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/rope.h"
#include "runtime/tape.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 5, kWidth = 12;
constexpr int kHeads = 3;

const ops::RopeOptions kRope{
    .num_heads = kHeads, .num_kv_heads = kHeads, .rope = ops::rope_frequencies(kWidth / kHeads, 100.0)};

struct Options {
  float dropout = 0.0f;
  bool rotates = false, two_parts = false;
  PrecisionMode mode = PrecisionMode::kFp32;
  ops::LinearCut cut = ops::LinearCut::kNone;
};

struct Result {
  std::vector<std::vector<float>> values;  // output, gradients
  std::int64_t saved_bytes = 0;
};

Tensor attend(Context& ctx, const Tensor& x, const Options& options) {
  const auto project = [&options](Context& inner, const Tensor& input) {
    const Tensor qkv = ops::linear(inner, input, {0}, {.bias = {1}, .cut = options.cut});
    return options.rotates ? ops::rope(inner, qkv, kRope) : qkv;
  };
  return ops::projected_attention(ctx, x, project, {.num_heads = kHeads, .dropout_p = options.dropout});
}

Result differentiate(const Options& options, Recompute recompute) {
  Context ctx = Context::create({DeviceType::kCpu}, 2);
  ctx.training = true;
  ctx.precision = Precision(options.mode);
  ctx.rng = {.seed = 7};
  const std::vector<ParameterSpec> specs{{.name = "qkv", .shape = {3 * kWidth, kWidth}},
                                         {.name = "bias", .shape = {3 * kWidth}}};
  LocalParameters params(ctx, specs, "op", 3);
  for (int p = 0; p < 2; ++p) {
    const auto values = testing::random_values(specs[static_cast<std::size_t>(p)].shape.num_elems(), 20 + p);
    ctx.backend->copy_from_host(ctx.exec, params.value({p}), values.data());
  }
  ctx.parameters = &params;
  Result result;
  const auto values = testing::random_values(kBatch * kTokens * kWidth, 5);
  Tape tape(recompute);
  ctx.tape = &tape;
  Tensor x = tape.watch(ctx.from_host(values.data(), {kBatch, kTokens, kWidth}, DType::kFloat32));
  Tensor y = attend(ctx, x, options);
  result.saved_bytes = tape.saved_bytes();
  result.values.push_back(ctx.to_host(y));
  const Tensor dy = ctx.empty(y.shape(), y.dtype());
  ctx.backend->copy(ctx.exec, dy, y);
  std::vector<Tape::Seed> seeds{{y.id(), dy}};
  const ValueId input = x.id();
  x = y = Tensor();
  ctx.tape = nullptr;
  DeferredGradients deferred;
  StagedParameters staged(ctx, params, deferred);
  Context back = ctx;
  if (options.two_parts) back.parameters = &staged, back.deferred = &deferred;
  result.values.push_back(ctx.to_host(tape.backward(back, std::move(seeds), {input}).front()));
  deferred.run(ctx);
  for (int p = 0; p < 2; ++p) result.values.push_back(ctx.to_host(params.gradient_of({p})));
  return result;
}

TEST(ProjectedAttention, OfSelectiveRecomputeHasTheSameBits) {
  for (const Options& options :
       {Options{}, Options{.dropout = 0.2f}, Options{.rotates = true}, Options{.two_parts = true},
        Options{.dropout = 0.2f, .two_parts = true, .mode = PrecisionMode::kBf16},
        Options{.cut = ops::LinearCut::kColumns}}) {
    const Result kept = differentiate(options, Recompute::kNone);
    const Result again = differentiate(options, Recompute::kSelective);
    EXPECT_EQ(kept.values, again.values);
  }
}

TEST(ProjectedAttention, OfSelectiveRecomputeKeepsNeitherQueriesNorKeysNorValues) {
  for (const auto& [mode, bytes] : {std::pair{PrecisionMode::kFp32, 4}, {PrecisionMode::kBf16, 2}}) {
    const Result kept = differentiate({.mode = mode}, Recompute::kNone);
    const Result again = differentiate({.mode = mode}, Recompute::kSelective);
    EXPECT_EQ(kept.saved_bytes - again.saved_bytes, 3 * kBatch * kTokens * kWidth * bytes);
  }
}

}  // namespace
}  // namespace trireme
