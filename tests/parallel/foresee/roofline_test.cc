#include "parallel/foresee/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/gpt.h"
#include "models/llama.h"
#include "models/resnet.h"
#include "parallel/foresee/random_operands.h"
#include "parallel/layout/block_work.h"

namespace trireme {
namespace {

int memory = 0;

TensorView view(const Shape& shape, DType dtype = DType::kBFloat16) {
  return {&memory, dtype, shape};
}

PlannedJob gpt_job(int micro_batches = 1) {
  const GptConfig config{.layers = 3, .hidden = 32, .heads = 4, .vocab = 128, .seq_len = 16};
  return {std::make_shared<const BlockList>(build_gpt(config)),
          {.global_batch = 2 * micro_batches, .micro_batch = 2, .precision = Precision(PrecisionMode::kBf16)},
          {.input = {16}, .target = {16}}};
}

TEST(Roofline, CountsAProductByHand) {
  const MatmulArgs args{.a = view({4, 8}), .b = view({8, 16}), .d = view({4, 16}), .bias = view({16})};
  EXPECT_EQ(cost_of(args),
            (OpCost{2.0 * (4 * 8 + 8 * 16 + 16 + 4 * 16), 2.0 * 4 * 8 * 16, Arithmetic::kSixteenBit}));
  // A weight gradient, fp32, that is accumulated: read and written.
  const MatmulArgs gradient{.a = view({4, 8}),
                            .b = view({4, 16}),
                            .d = view({8, 16}, DType::kFloat32),
                            .transpose_a = Transpose::kYes,
                            .mode = GradientMode::kAccumulate};
  EXPECT_EQ(cost_of(gradient),
            (OpCost{2.0 * (4 * 8 + 4 * 16) + 2 * 4.0 * 8 * 16, 2.0 * 4 * 8 * 16, Arithmetic::kSixteenBit}));
}

TEST(Roofline, CountsFp8AtItsOwnRate) {
  const MatmulArgs args{
      .a = view({4, 8}, DType::kE5m2), .b = view({8, 16}, DType::kE4m3), .d = view({4, 16})};
  EXPECT_EQ(cost_of(args),
            (OpCost{1.0 * (4 * 8 + 8 * 16) + 2.0 * 4 * 16, 2.0 * 4 * 8 * 16, Arithmetic::kFp8}));
  for (const CardRates& card : kCards) {
    EXPECT_DOUBLE_EQ(roofline_seconds({0, 1979e12, Arithmetic::kFp8}, card), 1 / kArithmeticShare);
  }
}

TEST(Roofline, CountsAConvolutionByHand) {
  // 3 x 3 over 4 of 8 channels (2 groups), stride 2: 5 x 5 pixels of 6 become 3 x 3.
  const ConvGeometry geometry{.stride = 2, .padding = 1, .groups = 2};
  const auto x = view({2, 5, 5, 8}, DType::kFloat32), y = view({2, 3, 3, 6}, DType::kFloat32);
  const auto weight = view({6, 4, 3, 3}, DType::kFloat32);
  const double operations = 2.0 * (2 * 3 * 3 * 6) * (4 * 3 * 3);
  const double bytes = 4.0 * (2 * 5 * 5 * 8 + 2 * 3 * 3 * 6 + 6 * 4 * 3 * 3);
  EXPECT_EQ(cost_of(Conv2dFwdArgs{.x = x, .weight = weight, .y = y, .geometry = geometry}),
            (OpCost{bytes, operations, Arithmetic::kFp32}));
  EXPECT_EQ(cost_of(Conv2dBwdDataArgs{
                .dy = y, .weight = weight, .dx = x, .geometry = geometry, .math = MathMode::kTf32}),
            (OpCost{bytes, operations, Arithmetic::kTf32}));
  EXPECT_EQ(cost_of(Conv2dBwdWeightArgs{.dy = y, .x = x, .dweight = weight, .geometry = geometry}),
            (OpCost{bytes, operations, Arithmetic::kFp32}));
}

TEST(Roofline, CountsAttentionByHand) {
  const auto qkv = view({2, 16, 24}), out = view({2, 16, 8}), lse = view({2, 2, 16}, DType::kFloat32);
  const double product = 2.0 * 2 * 16 * 16 * 8;  // product of scores, all heads and samples, not causal
  const double bytes = 2.0 * 2 * 16 * (24 + 8) + 4.0 * 2 * 2 * 16;
  EXPECT_EQ(cost_of(AttentionFwdArgs{.qkv = qkv, .out = out, .lse = lse, .num_heads = 2}),
            (OpCost{bytes, 2 * product / 2, Arithmetic::kSixteenBit}));
  EXPECT_EQ(cost_of(AttentionFwdArgs{.qkv = qkv, .out = out, .lse = lse, .causal = false}).operations,
            2 * product);
  EXPECT_EQ(
      cost_of(AttentionBwdArgs{.dout = out, .qkv = qkv, .out = out, .lse = lse, .dqkv = qkv}).operations,
      5 * product / 2);
}

TEST(Roofline, CountsCrossAttentionByHand) {
  const auto q = view({2, 16, 8}), k = view({2, 5, 8}), lse = view({2, 2, 16}, DType::kFloat32);
  const double product = 2.0 * 2 * 16 * 5 * 8;  // product of scores, all heads and samples
  const double bytes = 2.0 * 2 * (16 + 16 + 5 + 5) * 8 + 4.0 * 2 * 2 * 16;
  EXPECT_EQ(cost_of(CrossAttentionFwdArgs{.q = q, .k = k, .v = k, .out = q, .lse = lse, .num_heads = 2}),
            (OpCost{bytes, 2 * product, Arithmetic::kSixteenBit}));
  EXPECT_EQ(cost_of(CrossAttentionBwdArgs{
                        .q = q, .k = k, .v = k, .dout = q, .out = q, .lse = lse, .dq = q, .dk = k, .dv = k})
                .operations,
            5 * product);
  const auto wide = view({2, 16, 8}, DType::kFloat32);
  EXPECT_EQ(
      cost_of(CrossAttentionFwdArgs{.q = wide, .k = wide, .v = wide, .out = wide, .lse = lse}).arithmetic,
      Arithmetic::kThreeTf32);
}

TEST(Roofline, CountsFp32AttentionAsThreeProductsOfTf32) {
  const auto qkv = view({2, 16, 24}, DType::kFloat32), out = view({2, 16, 8}, DType::kFloat32),
             lse = view({2, 2, 16}, DType::kFloat32);
  AttentionFwdArgs fwd{.qkv = qkv, .out = out, .lse = lse};
  AttentionBwdArgs bwd{.dout = out, .qkv = qkv, .out = out, .lse = lse, .dqkv = qkv};
  EXPECT_EQ(cost_of(fwd).arithmetic, Arithmetic::kThreeTf32);
  EXPECT_EQ(cost_of(bwd).arithmetic, Arithmetic::kThreeTf32);
  fwd.math = bwd.math = MathMode::kTf32;
  EXPECT_EQ(cost_of(fwd).arithmetic, Arithmetic::kTf32);
  EXPECT_EQ(cost_of(bwd).arithmetic, Arithmetic::kTf32);
  for (const CardRates& card : kCards) {
    EXPECT_DOUBLE_EQ(roofline_seconds({0, 1e15, Arithmetic::kThreeTf32}, card),
                     3 * roofline_seconds({0, 1e15, Arithmetic::kTf32}, card));
  }
}

TEST(Roofline, CountsWhatMemoryAloneLimits) {
  // Reads x twice, because statistics come first.
  const auto x = view({8, 4});
  EXPECT_EQ(cost_of(BatchNormFwdArgs{.x = x, .y = x}), (OpCost{3.0 * 2 * 8 * 4}));
  // The rows of 6 tokens of a table of 1000.
  const EmbeddingFwdArgs embedding{
      .tokens = view({2, 3}, DType::kInt32), .table = view({1000, 4}), .x = view({2, 3, 4})};
  EXPECT_EQ(cost_of(embedding), (OpCost{4.0 * 6 + 2 * 2.0 * 6 * 4}));
  const auto p = view({1024}, DType::kFloat32);
  const AdamWArgs adamw{.param = p, .exp_avg = p, .exp_avg_sq = p, .grad = p, .working = view({1024})};
  EXPECT_EQ(cost_of(adamw), (OpCost{1024.0 * (3 * 8 + 4 + 2)}));
}

TEST(Roofline, TakesTheLongerOfBytesAndArithmetic) {
  const CardRates card{"card", 100.0, {0.0, 10.0, 15.0, 20.0, 40.0}};
  EXPECT_DOUBLE_EQ(roofline_seconds({.bytes = 90}, card), 1.0);
  EXPECT_DOUBLE_EQ(roofline_seconds({90, 64, Arithmetic::kSixteenBit}, card), 2.0);
  EXPECT_DOUBLE_EQ(roofline_seconds({90, 64, Arithmetic::kTf32}, card), 4.0);
  EXPECT_DOUBLE_EQ(roofline_seconds({90, 64, Arithmetic::kFp32}, card), 8.0);
  EXPECT_DOUBLE_EQ(roofline_seconds({90, 4, Arithmetic::kFp32}, card), 1.0);
}

TEST(Roofline, OfAStepCountsEachBlockOnceAndSumsItsRows) {
  const PlannedJob job = gpt_job(3);
  const StepCalls step = record_step(job);
  const Roofline roofline = make_roofline(step);
  ASSERT_EQ(roofline.parts.size(), 4u);  // embedding, blocks, head, the whole model
  EXPECT_EQ(roofline.block().units, (std::vector<std::string>{"blocks.0", "blocks.1", "blocks.2"}));
  EXPECT_THAT(roofline.parts.back().units, ::testing::IsEmpty());
  double bytes = 0, seconds = 0, forward = 0;
  for (const OpCall& call : step.calls) {
    bytes += call.cost.bytes;
    seconds += roofline_seconds(call.cost, kCards[0]);
    if (call.spent == TimeSpent::kForward) forward += call.cost.operations;
  }
  EXPECT_DOUBLE_EQ(roofline.cost().bytes, bytes);
  EXPECT_NEAR(roofline.seconds(kCards[0]), seconds, 1e-12 * seconds);
  double rows = 0;
  for (const RooflinePart& part : roofline.parts) {
    for (const RooflineRow& row : part.rows) {
      rows += static_cast<double>(part.num_units() * row.num_calls) * roofline_seconds(row.cost, kCards[0]);
    }
  }
  EXPECT_NEAR(roofline.seconds(kCards[0]), rows, 1e-12 * rows);
  // Six samples. Backward of products is twice their forward, and backward of attention five halves.
  double work = 0;
  for (const double operations : count_block_work(*job.blocks, job.sample)) work += 6 * operations;
  EXPECT_DOUBLE_EQ(forward, work);
  const double attention = 6 * 3 * 4.0 * 16 * 16 * 32 / 2;
  EXPECT_DOUBLE_EQ(roofline.cost().operations, 3 * work + attention / 2);
}

// Gaps between small parameters are zeroed by one call per block, which costs little more than their bytes.
TEST(Roofline, ABlocksGapsAreFilledAtOnce) {
  std::map<int, int> fills;
  for (const OpCall& call : record_step(gpt_job()).calls) {
    if (call.op != "fill_zero") continue;
    ++fills[call.unit];
    EXPECT_LE(call.cost.bytes, 4.0 * 128 * 1024);
  }
  for (const int block : {1, 2, 3}) EXPECT_EQ(fills[block], 1);
}

TEST(Roofline, ACallOfTheTableIsBoundWhole) {
  // Touching meta memory faults, so a view that visit_views() leaves out would crash the test.
  const PlannedJob gpt = gpt_job();
  const LlamaConfig llama{.layers = 1, .hidden = 32, .heads = 4, .kv_heads = 2, .vocab = 64, .seq_len = 8};
  PlannedJob llama_job{
      std::make_shared<const BlockList>(build_llama(llama)), gpt.options, {.input = {8}, .target = {8}}};
  PlannedJob resnet{std::make_shared<const BlockList>(build_resnet(*find_resnet_config("resnet18"))),
                    gpt.options,
                    {.input = {32, 32, 3}, .input_dtype = DType::kFloat32, .target = {}}};
  resnet.options.optimizer.kind = OptimizerConfig::Kind::kSgd;
  resnet.options.optimizer.momentum = 0.9f;
  llama_job.options.loss_scale.kind = LossScaleConfig::Kind::kDynamic;
  const Context ctx = Context::create({DeviceType::kCpu, 0}, 1);
  const RandomOperands operands(ctx);
  std::set<std::string_view> ops;
  for (const PlannedJob& job : {gpt, llama_job, resnet}) {
    for (const OpCall& call : record_step(job).calls) {
      call.bind(ctx, operands)();
      ops.insert(call.op);
    }
  }
  EXPECT_GE(ops.size(), 25u) << "of the table";
}

}  // namespace
}  // namespace trireme
