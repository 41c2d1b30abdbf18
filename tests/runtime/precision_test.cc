#include "runtime/precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/local_parameters.h"
#include "runtime/ops/add.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/tape.h"

namespace trireme {
namespace {

constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16, kB16 = DType::kBFloat16;

TEST(Precision, ModesAndNames) {
  for (const auto mode : {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16,
                          PrecisionMode::kBf16, PrecisionMode::kFp8}) {
    EXPECT_EQ(find_precision_mode(name(mode)), mode);
  }
  EXPECT_EQ(find_precision_mode("fp4"), std::nullopt);
  EXPECT_EQ(Precision(PrecisionMode::kTf32).compute_dtype(), kF32);
  EXPECT_EQ(Precision(PrecisionMode::kFp16).compute_dtype(), kF16);
  EXPECT_EQ(Precision(PrecisionMode::kTf32).math_of(OpKind::kLinear), MathMode::kTf32);
  EXPECT_EQ(Precision(PrecisionMode::kBf16).math_of(OpKind::kLinear), MathMode::kFp32);
  for (std::size_t op = 0; op < kNumOpKinds; ++op) {  // rows are in the order of OpKind
    EXPECT_EQ(find_op(kOpPolicies[op].name), static_cast<OpKind>(op));
  }
  EXPECT_EQ(wider(kF16, kF32), kF32);
  EXPECT_EQ(wider(kB16, kB16), kB16);
  EXPECT_EQ(wider(kF16, kB16), kF32);
}

TEST(Precision, Overrides) {
  Precision precision(PrecisionMode::kBf16);
  precision.override_op(OpKind::kAttention, PrecisionMode::kFp32);
  precision.override_op(OpKind::kLinear, PrecisionMode::kTf32);
  EXPECT_EQ(precision.dtype_of(OpKind::kAttention, kB16), kF32);
  EXPECT_EQ(precision.dtype_of(OpKind::kLayerNorm, kB16), kB16);
  EXPECT_EQ(precision.math_of(OpKind::kLinear), MathMode::kTf32);
  EXPECT_EQ(precision.math_of(OpKind::kAttention), MathMode::kFp32);
  EXPECT_THROW(precision.override_op(OpKind::kLinear, PrecisionMode::kFp16), Error);
  EXPECT_THROW(precision.override_op(OpKind::kAdd, PrecisionMode::kTf32), Error);
}

// A net of every op on the meta device, to check result dtypes. The tape checks that every gradient has the
// dtype of its value.
struct Net {
  Context ctx = Context::create({DeviceType::kMeta}, 1);
  LocalParameters params{ctx,
                         {{.name = "table", .shape = {11, 8}},
                          {.name = "gamma", .shape = {8}},
                          {.name = "beta", .shape = {8}},
                          {.name = "qkv", .shape = {24, 8}},
                          {.name = "out", .shape = {8, 8}},
                          {.name = "bias", .shape = {8}}},
                         "net",
                         0};
  Tape tape;
  DType embedded = kF32, normed = kF32, attended = kF32, stream = kF32, logits = kF32;

  explicit Net(const Precision& precision) {
    ctx.parameters = &params;
    ctx.tape = &tape;
    ctx.training = true;
    ctx.precision = precision;
    const Tensor tokens = ctx.empty({2, 3}, DType::kInt32);
    const Tensor x = ops::embedding(ctx, tokens, {0});
    const Tensor h = ops::layer_norm(ctx, x, {1}, {2});
    const Tensor a = ops::attention(ctx, ops::linear(ctx, h, {3}), {.num_heads = 2});
    Tensor y = ops::linear(ctx, a, {4}, {.bias = {5}, .residual = x});
    y = ops::dropout(ctx, y, 0.1f, x);
    y = ops::add(ctx, y, x);
    Tensor scores = ops::linear(ctx, y, {0}, {.activation = Activation::kGeluTanh});
    embedded = x.dtype(), normed = h.dtype(), attended = a.dtype(), stream = y.dtype();
    logits = scores.dtype();
    const Tensor loss =
        ops::softmax_cross_entropy(ctx, std::move(scores), ctx.empty({6}, DType::kInt32), 1.0f);
    EXPECT_EQ(loss.dtype(), kF32);
    tape.backward(ctx, {{.output = loss.id()}}, {});
  }
};

TEST(Precision, EveryOpReturnsWhatTheTableSays) {
  for (const auto& [mode, dtype] : {std::pair{PrecisionMode::kFp32, kF32},
                                    {PrecisionMode::kTf32, kF32},
                                    {PrecisionMode::kFp16, kF16},
                                    {PrecisionMode::kBf16, kB16}}) {
    const Net net{Precision(mode)};
    for (const DType got : {net.embedded, net.normed, net.attended, net.stream, net.logits}) {
      EXPECT_EQ(got, dtype) << name(mode);
    }
  }
}

TEST(Precision, AnOverrideChangesItsOpAndWidensTheStream) {
  for (const OpPolicy& policy : kOpPolicies) {
    Precision precision(PrecisionMode::kBf16);
    precision.override_op(policy.op, PrecisionMode::kFp32);
    const Net net(precision);
    EXPECT_EQ(net.embedded, policy.op == OpKind::kEmbedding ? kF32 : kB16) << policy.name;
    // A norm and the residual stream keep the dtype of a wide embedding; matrix products return to the mode's
    // dtype.
    const bool wide_norm = policy.op == OpKind::kLayerNorm || policy.op == OpKind::kEmbedding;
    EXPECT_EQ(net.normed, wide_norm ? kF32 : kB16) << policy.name;
    EXPECT_EQ(net.attended, policy.op == OpKind::kAttention ? kF32 : kB16) << policy.name;
    const bool wide_stream = policy.op == OpKind::kEmbedding || policy.op == OpKind::kLinear ||
                             policy.op == OpKind::kDropout || policy.op == OpKind::kAdd;
    EXPECT_EQ(net.stream, wide_stream ? kF32 : kB16) << policy.name;
    EXPECT_EQ(net.logits, policy.op == OpKind::kLinear ? kF32 : kB16) << policy.name;
  }
}

TEST(Cast, RoundsForwardAndCastsTheGradientBack) {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  Tape tape;
  ctx.tape = &tape;
  const std::vector<float> values = {1.0f, 1.0f + 0x1p-8f, 1.0f + 0x1p-7f, -3.1415927f};
  const Tensor x = tape.watch(ctx.from_host(values.data(), {4}, kF32));
  const Tensor y = ops::cast(ctx, x, kB16);
  EXPECT_EQ(y.dtype(), kB16);
  EXPECT_EQ(ctx.to_host(y), (std::vector<float>{1.0f, 1.0f, 1.0f + 0x1p-7f, -3.140625f}));
  EXPECT_EQ(ops::cast(ctx, y, kB16).id(), y.id());  // nothing to do
  const std::vector<float> dy = {0.5f, 2.0f, -1.0f, 0.25f};
  const Tensor seed = ops::cast(ctx, ctx.from_host(dy.data(), {4}, kF32), kB16);
  const std::vector<Tensor> dx = tape.backward(ctx, {{.output = y.id(), .gradient = seed}}, {x.id()});
  EXPECT_EQ(dx[0].dtype(), kF32);
  EXPECT_EQ(ctx.to_host(dx[0]), dy);
}

TEST(CrossEntropy, TheGradientCarriesTheScaleAndTheLossDoesNot) {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  const std::vector<float> logits = {0.5f, -1.0f, 2.0f, 0.0f, 1.0f, -0.5f};
  const std::vector<std::int32_t> targets = {2, 0};
  const auto gradient = [&](const Tensor& scale, float& loss) {
    Tape tape;
    ctx.tape = &tape;
    ctx.gradient_scale = scale;
    const Tensor x = tape.watch(ctx.from_host(logits.data(), {2, 3}, kF32));
    const Tensor y =
        ops::softmax_cross_entropy(ctx, x, ctx.from_host(targets.data(), {2}, DType::kInt32), 0.5f);
    loss = ctx.to_host(y)[0];
    return ctx.to_host(tape.backward(ctx, {{.output = y.id()}}, {x.id()})[0]);
  };
  float loss = 0, scaled_loss = 0;
  const float factor = 1024.0f;
  const std::vector<float> plain = gradient({}, loss);
  const std::vector<float> scaled = gradient(ctx.from_host(&factor, {}, kF32), scaled_loss);
  EXPECT_EQ(loss, scaled_loss);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], factor * plain[i]);  // a power of two
}

}  // namespace
}  // namespace trireme
