// Memory of the model's state against the formulas of Rajbhandari et al. 2020, "ZeRO", section 3 and table 1.
// Adam has K = 12 bytes of fp32 master and moments per parameter, 16-bit working copies, and G bytes per
// gradient. With psi parameters on N ranks: none (14 + G) psi, stage 1 (2 + G) psi + 12 psi / N, stage 2 2
// psi + (12 + G) psi / N, stage 3 (14 + G) psi / N. The paper has G = 2; fp32 gradients have G = 4.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "models/gpt.h"
#include "parallel/comm/recording.h"
#include "parallel/foresee/predict.h"
#include "parallel/layout/param_store.h"
#include "parallel/reduce/grad_accumulator.h"

namespace trireme {
namespace {

struct StateBytes {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
  std::int64_t total() const { return parameters + gradients + optimizer; }
};

// The bytes that a rank keeps between the last backward and the update of a step with one micro-batch per
// rank: only the store and the accumulator, on the meta device, without activations.
StateBytes measured(const BlockList& blocks, const ModelLayout& layout, ZeroStage zero, int ranks,
                    DType grad) {
  const Context ctx = Context::create({DeviceType::kMeta}, 1);
  Context grad_ctx = ctx;
  const auto comm = std::make_shared<RecordingCommunicator>(ranks - 1, ranks);
  const auto optimizer = make_optimizer({.kind = OptimizerConfig::Kind::kAdamW});
  const ParamStore store(ctx, blocks, layout, *optimizer, DataAxis(comm),
                         {.sharded = sharded_by(zero), .working_dtype = DType::kBFloat16});
  const bool each = zero >= ZeroStage::kGradients;
  const BatchLayout batch{.global_batch = ranks,
                          .data_ranks = ranks,
                          .assignment = each ? Assignment::kStrided : Assignment::kContiguous};
  GradAccumulator gradients(
      layout, batch, {.sharded = sharded_by(zero), .reduce_each_micro_batch = each, .dtype = grad}, *comm);
  for (int unit = static_cast<int>(blocks.size()) - 1; unit >= 0; --unit) {
    gradients.begin(grad_ctx, unit, 0);
    gradients.end(grad_ctx, unit, 0);
    gradients.start_reduce(grad_ctx, unit, each ? 0 : -1);
    if (zero == ZeroStage::kNone && ranks > 1) gradients.start_gather(grad_ctx, unit);
  }
  gradients.finish(grad_ctx);
  const MemoryCounts alive = ctx.allocator->stats().current;
  EXPECT_EQ(alive[MemoryCategory::kCommunication], 0);
  return {alive[MemoryCategory::kParameters], alive[MemoryCategory::kGradients],
          alive[MemoryCategory::kOptimizer]};
}

// The formula for each kind of state: whole on every rank, or sharded into N pieces.
StateBytes formula(ZeroStage zero, int ranks, std::int64_t psi, DType grad) {
  const std::int64_t piece = psi / ranks;
  const bool cut_optimizer = zero >= ZeroStage::kOptimizer;
  const bool cut_gradients = zero >= ZeroStage::kGradients;
  const bool cut_parameters = zero >= ZeroStage::kParameters;
  return {.parameters = 2 * (cut_parameters ? piece : psi) + 4 * (cut_optimizer ? piece : psi),
          .gradients = size_bytes(grad) * (cut_gradients ? piece : psi),
          .optimizer = 8 * (cut_optimizer ? piece : psi)};
}

// Elements with the gaps that align parameters to norm blocks, and the padding that makes N equal pieces.
std::int64_t padded_elems(const ModelLayout& layout, int ranks) {
  return std::accumulate(layout.groups.begin(), layout.groups.end(), std::int64_t{0},
                         [&](std::int64_t sum, const ParamGroup& group) {
                           return sum + Sharding{ranks, 0}.padded(group.num_elems);
                         });
}

constexpr ZeroStage kStages[] = {ZeroStage::kNone, ZeroStage::kOptimizer, ZeroStage::kGradients,
                                 ZeroStage::kParameters};

// The norms: one number per norm block of all ranks, in one allocation.
std::int64_t norm_bytes(std::int64_t elems) {
  const auto alignment = static_cast<std::int64_t>(Allocator::kAlignment);
  return (4 * elems / kNormBlock + alignment - 1) / alignment * alignment;
}

class ZeroFormulas : public ::testing::TestWithParam<DType> {};

TEST_P(ZeroFormulas, StateBytesAreThoseOfThePaperAndPadding) {
  const BlockList blocks =
      build_gpt({.layers = 3, .hidden = 160, .heads = 4, .vocab = 1013, .seq_len = 48, .tied = false});
  const ModelLayout layout = make_layout(blocks);
  for (const int ranks : {1, 2, 4, 8, 64}) {
    for (const ZeroStage zero : kStages) {
      // Without sharding only the exchange pads: gradients are whole pieces, parameters are not padded.
      const std::int64_t padded = padded_elems(layout, ranks);
      const std::int64_t unpadded = zero == ZeroStage::kNone ? padded_elems(layout, 1) : padded;
      const StateBytes got = measured(blocks, layout, zero, ranks, GetParam());
      EXPECT_EQ(got.parameters, formula(zero, ranks, unpadded, GetParam()).parameters);
      EXPECT_EQ(got.gradients, formula(zero, ranks, padded, GetParam()).gradients);
      EXPECT_EQ(got.optimizer, formula(zero, ranks, unpadded, GetParam()).optimizer);
      const std::int64_t paper = formula(zero, ranks, layout.num_parameters, GetParam()).total();
      fmt::print("zero {} on {:>2} ranks, {} gradients: {:>9} B, the formula {:>9} B, padding {:>7} B\n",
                 static_cast<int>(zero), ranks, name(GetParam()), got.total(), paper, got.total() - paper);
    }
  }
}

// A merged group is padded once.
TEST_P(ZeroFormulas, HoldForMergedGroups) {
  const BlockList blocks = build_gpt({.layers = 3, .hidden = 160, .heads = 4, .vocab = 1013, .seq_len = 48});
  const ModelLayout layout = make_layout(blocks, std::int64_t{1} << 40);
  const std::int64_t tied = padded_elems({.groups = {layout.groups[0]}}, 8);
  for (const ZeroStage zero : {ZeroStage::kOptimizer, ZeroStage::kParameters}) {
    const StateBytes got = measured(blocks, layout, zero, 8, GetParam());
    const StateBytes expected = formula(zero, 8, padded_elems(layout, 8), GetParam());
    EXPECT_EQ(got.parameters, expected.parameters);
    EXPECT_EQ(got.gradients, expected.gradients) << "with a tied table of " << tied;
  }
}

// With 2^k micro-batches per rank, the state at the update is the table's, with additional kept state: with
// whole gradients, k sums of G psi when the last micro-batch runs; with gathered parameters, 2 psi from the
// end of the first forward on.
TEST_P(ZeroFormulas, HoldForWhatIsKeptOverMicroBatches) {
  const auto blocks = std::make_shared<const BlockList>(
      build_gpt({.layers = 3, .hidden = 160, .heads = 4, .vocab = 1013, .seq_len = 48, .tied = false}));
  const ModelLayout layout = make_layout(*blocks);
  const int ranks = 4, k = 2, head = static_cast<int>(blocks->size()) - 1;
  const std::int64_t psi = padded_elems(layout, ranks);
  const StateBytes state = formula(ZeroStage::kParameters, ranks, psi, GetParam());
  Precision precision(PrecisionMode::kBf16);
  precision.grad_dtype = GetParam();
  for (const bool kept : {false, true}) {
    for (const bool unsharded : {false, true}) {
      const EngineOptions options{.global_batch = ranks << k,
                                  .layout = {.zero = ZeroStage::kParameters,
                                             .accumulate_unsharded = unsharded,
                                             .keep_gathered = kept,
                                             .prefetch_depth = 0},
                                  .precision = precision};
      const StepPrediction step = predict_step(blocks, options, {.input = {48}, .target = {48}}, ranks, 0);
      const auto forward_of_last = [&](int unit) {
        const Action action{ActionKind::kForward, unit, (1 << k) - 1};
        const auto& actions = step.plan.actions;
        return step.actions[static_cast<std::size_t>(std::ranges::find(actions, action) - actions.begin())]
            .alive;
      };
      const MemoryCounts update = step.update().alive, last = forward_of_last(head);
      EXPECT_EQ(update[MemoryCategory::kParameters], state.parameters);
      EXPECT_EQ(update[MemoryCategory::kGradients], state.gradients);
      if (!unsharded) continue;  // the last exchanges of the previous micro-batch are in flight
      const std::int64_t of_head = Sharding{ranks, 0}.padded(layout.groups.back().num_elems);
      EXPECT_EQ(last[MemoryCategory::kCommunication] - norm_bytes(psi), 2 * (kept ? psi : of_head)) << kept;
      EXPECT_EQ(last[MemoryCategory::kGradients], size_bytes(GetParam()) * k * psi);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(GradientDtypes, ZeroFormulas, ::testing::Values(DType::kBFloat16, DType::kFloat32),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace trireme
