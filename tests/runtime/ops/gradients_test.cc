// Checks every op's backward against finite differences, and its input errors.
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/add.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/gather_targets.h"
#include "runtime/ops/geglu.h"
#include "runtime/ops/head_norm.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/linear_cross_entropy.h"
#include "runtime/ops/low_rank.h"
#include "runtime/ops/rope.h"
#include "runtime/ops/scale.h"
#include "runtime/ops/swiglu.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

using testing::expect_gradients;

TEST(Gradients, Linear) {
  expect_gradients(
      {.parameters = {{.name = "weight", .shape = {7, 5}}, {.name = "bias", .shape = {7}}},
       .input = {2, 3, 5},
       .op = [](Context& ctx, const Tensor& x) { return ops::linear(ctx, x, {0}, {.bias = {1}}); }});
}

TEST(Gradients, LinearWithGelu) {
  expect_gradients({.parameters = {{.name = "weight", .shape = {9, 4}}, {.name = "bias", .shape = {9}}},
                    .input = {6, 4},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::linear(ctx, x, {0}, {.bias = {1}, .activation = Activation::kGeluTanh});
                    }});
}

TEST(Gradients, LinearWithExactGelu) {
  expect_gradients({.parameters = {{.name = "weight", .shape = {9, 4}}, {.name = "bias", .shape = {9}}},
                    .input = {6, 4},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::linear(ctx, x, {0}, {.bias = {1}, .activation = Activation::kGelu});
                    }});
}

TEST(Gradients, LinearWithResidual) {
  expect_gradients(
      {.parameters = {{.name = "weight", .shape = {5, 5}}},
       .input = {4, 5},
       .op = [](Context& ctx, const Tensor& x) { return ops::linear(ctx, x, {0}, {.residual = x}); }});
}

TEST(Gradients, SumOverChunks) {
  // Parameters of two chunks, {up, up's bias, down} each, and the common bias.
  const std::vector<ParameterSpec> chunks{
      {.name = "up0", .shape = {4, 6}},   {.name = "up_bias0", .shape = {4}},
      {.name = "down0", .shape = {6, 4}}, {.name = "up1", .shape = {4, 6}},
      {.name = "up_bias1", .shape = {4}}, {.name = "down1", .shape = {6, 4}},
      {.name = "down_bias", .shape = {6}}};
  for (const int groups : {1, 2, 4}) {
    expect_gradients(
        {.parameters = chunks, .input = {2, 3, 6}, .op = [groups](Context& ctx, const Tensor& x) {
           const ops::LinearCut cut = ops::LinearCut::kColumns;
           return ops::sum_over_chunks(
               ctx, x, {.chunks = 2, .groups = groups}, [&](const Tensor& copy, int i) {
                 const Tensor up = ops::linear(ctx, copy, {3 * i},
                                               {.bias = {3 * i + 1},
                                                .activation = Activation::kGeluTanh,
                                                .cut = cut,
                                                .groups = groups});
                 return ops::ChunkOutput{up, {3 * i + 2}, i == 0 ? ParamRef{6} : ParamRef{}};
               });
         }});
  }
}

TEST(Gradients, LowRank) {
  for (const bool has_residual : {false, true}) {
    expect_gradients({.parameters = {{.name = "a", .shape = {3, 5}}, {.name = "b", .shape = {5, 3}}},
                      .input = {2, 3, 5},
                      .op = [=](Context& ctx, const Tensor& x) {
                        return ops::low_rank(ctx, x, {.a = {0}, .b = {1}, .scale = 1.75f},
                                             has_residual ? x : Tensor());
                      }});
  }
}

TEST(Gradients, Activation) {
  for (const Activation activation : {Activation::kGeluTanh, Activation::kGelu, Activation::kTanh}) {
    expect_gradients({.input = {6, 9}, .op = [=](Context& ctx, const Tensor& x) {
                        return ops::activation(ctx, x, activation);
                      }});
  }
}

// Gives weight {0} an adapter of {2} and {3}.
class WithAdapter final : public ParameterResolver {
 public:
  explicit WithAdapter(ParameterResolver& parameters) : parameters_(parameters) {}
  Tensor value(ParamRef ref) override { return parameters_.value(ref); }
  GradientTarget gradient(ParamRef ref) override { return parameters_.gradient(ref); }
  const Adapter* adapter(ParamRef weight) const override { return weight.index == 0 ? &adapter_ : nullptr; }

 private:
  ParameterResolver& parameters_;
  const Adapter adapter_{.a = {2}, .b = {3}, .scale = 0.5f};
};

TEST(Gradients, LinearWithAnAdapter) {
  for (const bool has_residual : {false, true}) {
    for (const Activation activation : {Activation::kNone, Activation::kGelu}) {
      expect_gradients(
          {.parameters = {{.name = "weight", .shape = {5, 5}},
                          {.name = "bias", .shape = {5}},
                          {.name = "a", .shape = {2, 5}},
                          {.name = "b", .shape = {5, 2}}},
           .input = {4, 5},
           .op = [=](Context& ctx, const Tensor& x) {
             WithAdapter parameters(*ctx.parameters);
             Context adapted = ctx;
             adapted.parameters = &parameters;
             return ops::linear(
                 adapted, x, {0},
                 {.bias = {1}, .activation = activation, .residual = has_residual ? x : Tensor()});
           }});
    }
  }
}

TEST(Gradients, LayerNormBesideAResidual) {
  expect_gradients({.parameters = {{.name = "gamma", .shape = {33}}, {.name = "beta", .shape = {33}}},
                    .input = {5, 33},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::add(ctx, x, ops::layer_norm(ctx, x, {0}, {1}));
                    }});
}

TEST(Gradients, RmsNormBesideAResidual) {
  expect_gradients(
      {.parameters = {{.name = "gamma", .shape = {33}}},
       .input = {5, 33},
       .op = [](Context& ctx, const Tensor& x) { return ops::add(ctx, x, ops::rms_norm(ctx, x, {0})); }});
}

// Groups of unequal sizes, and more groups than rows.
TEST(Gradients, NormsInRowGroups) {
  for (const int row_groups : {2, 4, 16}) {
    expect_gradients({.parameters = {{.name = "gamma", .shape = {33}}, {.name = "beta", .shape = {33}}},
                      .input = {3, 3, 33},
                      .op = [row_groups](Context& ctx, const Tensor& x) {
                        const ops::NormOptions options{.row_groups = row_groups};
                        return ops::add(ctx, x, ops::layer_norm(ctx, x, {0}, {1}, options));
                      }});
    expect_gradients({.parameters = {{.name = "gamma", .shape = {33}}},
                      .input = {3, 3, 33},
                      .op = [row_groups](Context& ctx, const Tensor& x) {
                        return ops::rms_norm(ctx, x, {0}, {.row_groups = row_groups});
                      }});
  }
}

TEST(Gradients, AttentionCausalAndNot) {
  for (const bool causal : {true, false}) {
    expect_gradients({.input = {2, 13, 3 * 8}, .op = [causal](Context& ctx, const Tensor& x) {
                        return ops::attention(ctx, x, {.num_heads = 2, .causal = causal});
                      }});
  }
}

TEST(Gradients, AttentionWithinDocuments) {
  expect_gradients({.input = {2, 5, 3 * 8}, .op = [](Context& ctx, const Tensor& x) {
                      const std::int32_t bounds[] = {0, 2, 0, 2, 2, 5, 2, 5, 2, 5,  //
                                                     0, 4, 0, 4, 0, 4, 0, 4, 4, 5};
                      const Tensor key_bounds = ctx.from_host(bounds, {2, 5, 2}, DType::kInt32);
                      return ops::attention(ctx, x,
                                            {.num_heads = 2, .causal = false, .key_bounds = key_bounds});
                    }});
}

TEST(Gradients, AttentionInAWindow) {
  expect_gradients({.input = {2, 13, 3 * 8}, .op = [](Context& ctx, const Tensor& x) {
                      return ops::attention(ctx, x, {.num_heads = 2, .window = 4, .scale = 0.7f});
                    }});
}

TEST(Gradients, LinearWithTanh) {
  expect_gradients({.parameters = {{.name = "weight", .shape = {5, 7}}, {.name = "bias", .shape = {5}}},
                    .input = {4, 7},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::linear(ctx, x, {0}, {.bias = {1}, .activation = Activation::kTanh});
                    }});
}

TEST(Gradients, AttentionOfGroupedQueries) {
  for (const int kv_heads : {1, 2}) {
    expect_gradients(
        {.input = {2, 13, (4 + 2 * kv_heads) * 3}, .op = [kv_heads](Context& ctx, const Tensor& x) {
           return ops::attention(ctx, x, {.num_heads = 4, .num_kv_heads = kv_heads});
         }});
  }
}

TEST(Gradients, AttentionWithDropout) {
  expect_gradients({.input = {2, 9, 3 * 6}, .op = [](Context& ctx, const Tensor& x) {
                      return ops::attention(ctx, x, {.num_heads = 3, .dropout_p = 0.4f});
                    }});
}

TEST(Gradients, Dropout) {
  expect_gradients({.input = {3, 17}, .op = [](Context& ctx, const Tensor& x) {
                      return ops::dropout(ctx, x, 0.3f, ops::add(ctx, x, x));
                    }});
}

TEST(Gradients, DropPath) {
  expect_gradients({.input = {8, 3, 5}, .op = [](Context& ctx, const Tensor& x) {
                      return ops::drop_path(ctx, x, 0.4f, ops::add(ctx, x, x));
                    }});
}

TEST(Gradients, Rope) {
  for (const int kv_heads : {4, 2, 1}) {
    expect_gradients(
        {.input = {2, 7, (4 + 2 * kv_heads) * 6}, .op = [kv_heads](Context& ctx, const Tensor& x) {
           return ops::rope(
               ctx, x, {.num_heads = 4, .num_kv_heads = kv_heads, .rope = ops::rope_frequencies(6, 100.0)});
         }});
  }
}

TEST(Gradients, HeadNorm) {
  for (const int kv_heads : {1, 2, 4}) {
    expect_gradients({.parameters = {{.name = "q", .shape = {6}}, {.name = "k", .shape = {6}}},
                      .input = {2, 3, (4 + 2 * kv_heads) * 6},
                      .op = [kv_heads](Context& ctx, const Tensor& x) {
                        return ops::head_norm(ctx, x, {0}, {1}, {.num_heads = 4, .num_kv_heads = kv_heads});
                      }});
  }
}

TEST(Gradients, HeadNormOfAllHeads) {
  expect_gradients({.parameters = {{.name = "q", .shape = {24}}, {.name = "k", .shape = {12}}},
                    .input = {2, 3, (4 + 2 * 2) * 6},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::head_norm(
                          ctx, x, {0}, {1},
                          {.num_heads = 4, .num_kv_heads = 2, .whole = true, .gamma_offset = 1.0f});
                    }});
}

TEST(Gradients, RmsNormWithAnOffset) {
  expect_gradients({.parameters = {{.name = "gamma", .shape = {7}}},
                    .input = {3, 7},
                    .op = [](Context& ctx, const Tensor& x) {
                      return ops::rms_norm(ctx, x, {0}, {.gamma_offset = 1.0f});
                    }});
}

TEST(Gradients, Scale) {
  expect_gradients(
      {.input = {3, 7}, .op = [](Context& ctx, const Tensor& x) { return ops::scale(ctx, x, 2.5f); }});
}

TEST(Gradients, GegluOfAGateInFront) {
  expect_gradients({.input = {3, 4, 2 * 9}, .op = [](Context& ctx, const Tensor& x) {
                      return ops::geglu(ctx, x, ops::GegluForm::kGateUpTanh);
                    }});
}

TEST(Gradients, Swiglu) {
  expect_gradients(
      {.input = {3, 4, 2 * 9}, .op = [](Context& ctx, const Tensor& x) { return ops::swiglu(ctx, x); }});
}

// The gradient overwrites the input if the input is not shared.
TEST(Gradients, SwigluBehindALinear) {
  expect_gradients(
      {.parameters = {{.name = "weight", .shape = {14, 5}}},
       .input = {6, 5},
       .op = [](Context& ctx, const Tensor& x) { return ops::swiglu(ctx, ops::linear(ctx, x, {0})); }});
}

// Llama 3.1's scaling (factors of its config.json). In 8192 positions pair 28 of 64 turns 4.19 times and is
// kept, pair 35 turns 0.997 times and is slowed, and pair 30 turns 2.7785 times and is interpolated.
TEST(Rope, ScaledFrequencies) {
  const RopeFrequencies plain = ops::rope_frequencies(128, 5e5);
  const RopeFrequencies scaled = ops::rope_frequencies(
      128, 5e5, {.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192});
  EXPECT_EQ(scaled.frequencies[0], 1.0);
  for (const int i : {1, 10, 28}) EXPECT_EQ(scaled.frequencies[i], plain.frequencies[i]) << i;
  for (const int i : {35, 50, 63}) EXPECT_EQ(scaled.frequencies[i], plain.frequencies[i] / 8) << i;
  const double kept = (2.778547885 - 1.0) / 3.0;
  EXPECT_NEAR(scaled.frequencies[30] / plain.frequencies[30], kept + (1.0 - kept) / 8, 1e-8);
}

// Frequencies and factors that transformers 5 computes for heads of 16.
TEST(Rope, FrequenciesOfOtherScalings) {
  using Kind = ops::RopeScaling::Kind;
  const auto check = [](double theta, const ops::RopeScaling& scaling, const std::vector<double>& expected,
                        double factor) {
    const RopeFrequencies rope = ops::rope_frequencies(16, theta, scaling);
    for (int i = 0; i < rope.num_pairs; ++i) {
      EXPECT_NEAR(rope.frequencies[i], expected[static_cast<std::size_t>(i)], 1e-6 * rope.frequencies[i])
          << i;
    }
    EXPECT_NEAR(ops::rope_attention_factor(scaling), factor, 1e-12);
  };
  check(100.0, {.kind = Kind::kLinear, .factor = 4.0},
        {0.25, 0.1405853, 0.07905694, 0.04445698, 0.025, 0.01405853, 0.007905695, 0.004445699}, 1.0);
  check(100.0,
        {.kind = Kind::kYarn,
         .factor = 4.0,
         .low_freq_factor = 1.0,
         .high_freq_factor = 32.0,
         .original_context = 64},
        {1.0, 0.4779901, 0.2213594, 0.09780537, 0.04, 0.01405853, 0.007905695, 0.004445699},
        1.138629436111989);
  check(50.0,
        {.kind = Kind::kYarn,
         .factor = 8.0,
         .low_freq_factor = 2.0,
         .high_freq_factor = 4.0,
         .original_context = 40,
         .attention_factor = 1.5},
        {1.0, 0.4343766, 0.1566918, 0.02882679, 0.01767767, 0.01084061, 0.00664787, 0.004076723}, 1.5);
}

TEST(Gradients, Embedding) {
  expect_gradients(
      {.parameters = {{.name = "table", .shape = {6, 5}}, {.name = "positions", .shape = {9, 5}}},
       .has_input = false,
       .op = [](Context& ctx, const Tensor&) {
         const std::vector<std::int32_t> tokens = {0, 5, 5, 2, 1, 0, 0, 3};
         const Tensor t = ctx.from_host(tokens.data(), {2, 4}, DType::kInt32, MemoryCategory::kBatch);
         return ops::embedding(ctx, t, {0}, {1});
       }});
}

TEST(Gradients, CrossEntropyIgnoringATarget) {
  expect_gradients({.parameters = {{.name = "weight", .shape = {11, 5}}},
                    .input = {4, 5},
                    .op = [](Context& ctx, const Tensor& x) {
                      const std::vector<std::int32_t> targets = {10, 0, -1, 3};
                      const Tensor t =
                          ctx.from_host(targets.data(), {4}, DType::kInt32, MemoryCategory::kBatch);
                      return ops::softmax_cross_entropy(ctx, ops::linear(ctx, x, {0}), t, 0.25f);
                    }});
}

// Seven rows in parts of 7, of 4 and 3, of 3, 3 and 1, and of one row each.
TEST(Gradients, LinearCrossEntropy) {
  for (const std::int64_t parts : {1, 2, 3, 7, 9}) {
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(parts);
      expect_gradients(
          {.parameters = {{.name = "weight", .shape = {11, 5}}, {.name = "bias", .shape = {11}}},
           .input = {7, 5},
           .op = [=](Context& ctx, const Tensor& x) {
             const std::vector<std::int32_t> targets = {10, 0, -1, 3, -1, 3, 7};
             const Tensor t = ctx.from_host(targets.data(), {7}, DType::kInt32, MemoryCategory::kBatch);
             const ParamRef bias = has_bias ? ParamRef{1} : ParamRef{};
             Tensor loss = ops::linear_cross_entropy(ctx, x, {0}, t, 0.25f, {.bias = bias, .parts = parts});
             // A loss whose gradient is not 1, and that uses the bias in every case.
             return ops::add(
                 ctx, ops::scale(ctx, loss, 3.0f),
                 ops::softmax_cross_entropy(ctx, ops::linear(ctx, x, {0}, {.bias = {1}}), t, 0.5f));
           }});
    }
  }
}

TEST(Gradients, GatherTargets) {
  expect_gradients(
      {.input = {2, 4, 5}, .op = [](Context& ctx, const Tensor& x) {
         const std::vector<std::int32_t> targets = {-1, 1, 2, -1, -1, -1, -1, 3}, positions = {1, 2, 3, -1};
         const auto upload = [&](const std::vector<std::int32_t>& numbers, const Shape& shape) {
           return ctx.from_host(numbers.data(), shape, DType::kInt32, MemoryCategory::kBatch);
         };
         return ops::gather_targets(ctx, x, upload(targets, {2, 4}), upload(positions, {2, 2})).x;
       }});
}

void expect_refused(const std::string& text, const std::function<void(Context&)>& call) {
  Context ctx = Context::create({DeviceType::kMeta}, 1);
  LocalParameters params(
      ctx, std::vector<ParameterSpec>{{.name = "w", .shape = {4, 3}}, {.name = "v", .shape = {4}}}, "op", 0);
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

TEST(OpChecks, NameBothShapes) {
  expect_refused("linear: input [2, 5] does not fit weight [4, 3]", [](Context& c) {
    ops::linear(c, c.empty({2, 5}), {0});
  });
  expect_refused("bias [4, 3] does not fit 4", [](Context& c) {
    ops::linear(c, c.empty({2, 3}), {0}, {.bias = {0}});
  });
  expect_refused("layer_norm: input [2, 5] does not fit gamma [4]", [](Context& c) {
    ops::layer_norm(c, c.empty({2, 5}), {1}, {1});
  });
  expect_refused("attention: qkv [2, 5]", [](Context& c) {
    ops::attention(c, c.empty({2, 5}), {.num_heads = 1});
  });
  expect_refused("rope: 2 heads of k and v do not divide 3 heads of queries", [](Context& c) {
    ops::rope(c, c.empty({1, 2, 28}),
              {.num_heads = 3, .num_kv_heads = 2, .rope = ops::rope_frequencies(4, 1e4)});
  });
  expect_refused("rope: input [1, 2, 28] is not [B, T, (num_heads + 2 num_kv_heads) head_dim]",
                 [](Context& c) {
                   ops::rope(c, c.empty({1, 2, 28}),
                             {.num_heads = 2, .num_kv_heads = 2, .rope = ops::rope_frequencies(4, 1e4)});
                 });
  expect_refused("rope: head_dim 5 must be even", [](Context&) { ops::rope_frequencies(5, 1e4); });
  expect_refused("head_norm: input [1, 2, 28] is not [B, T, (num_heads + 2 num_kv_heads) head_dim]",
                 [](Context& c) {
                   ops::head_norm(c, c.empty({1, 2, 28}), {0}, {1}, {.num_heads = 3, .num_kv_heads = 1});
                 });
  expect_refused("swiglu: input [2, 5] is not [..., 2 F]", [](Context& c) {
    ops::swiglu(c, c.empty({2, 5}));
  });
  expect_refused("embedding: needs int32 tokens", [](Context& c) {
    ops::embedding(c, c.empty({2, 5}), {0});
  });
  expect_refused("p = 1 is not in [0, 1)", [](Context& c) { ops::dropout(c, c.empty({2, 5}), 1.0f); });
  expect_refused("p = -0.5 is not in [0, 1)", [](Context& c) { ops::drop_path(c, c.empty({2, 5}), -0.5f); });
  expect_refused("add: fp32 [2] and fp32 [3] differ",
                 [](Context& c) { ops::add(c, c.empty({2}), c.empty({3})); });
  expect_refused("want 2 int32 targets", [](Context& c) {
    ops::softmax_cross_entropy(c, c.empty({2, 5}), c.empty({3}, DType::kInt32), 1.0f);
  });
}

}  // namespace
}  // namespace trireme
