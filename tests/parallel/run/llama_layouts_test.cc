// Llama, tied and not: the same bits on every layout in every precision, and predicted memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/llama.h"
#include "tests/support/predicted_run.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 8, kSteps = 4, kSeqLen = 9, kVocab = 37;

struct LayoutCase {
  int ranks = 1, zero = 0, recompute = 0;
  trireme::Layout pipeline;
  std::string to_string() const {
    return fmt::format("{} ranks, zero {}, recompute {}, {} stages, {}", ranks, zero, recompute,
                       pipeline.pipeline, name(pipeline.schedule));
  }
  trireme::Layout whole() const {
    trireme::Layout all = pipeline;
    all.zero = static_cast<ZeroStage>(zero);
    all.recompute_every = recompute;
    return all;
  }
};

const LayoutCase kLayouts[] = {
    {.ranks = 2, .zero = 0},
    {.ranks = 4, .zero = 1, .recompute = 1},
    {.ranks = 4, .zero = 2},
    {.ranks = 4, .zero = 3, .recompute = 2},
    {.ranks = 2, .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kGpipe}},
    {.ranks = 4, .zero = 3, .pipeline = {.pipeline = 2}},
    {.ranks = 2,
     .recompute = 1,
     .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kInterleaved, .chunks = 2}},
    {.ranks = 4, .zero = 2, .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1}}};

EngineOptions options_for(PrecisionMode mode, const LayoutCase& layout) {
  EngineOptions options{.global_batch = kGlobalBatch,
                        .micro_batch = 1,
                        .seed = 3,
                        .optimizer = {.weight_decay = 0.1f},
                        .grad_clip = 0.5f,
                        .layout = layout.whole(),
                        .sample = SampleSpec{.input = {kSeqLen}, .target = {kSeqLen}},
                        .precision = Precision(mode)};
  if (mode == PrecisionMode::kFp16) options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
  return options;
}

using testing::RunOutcome;

class LlamaLayouts : public ::testing::TestWithParam<std::tuple<PrecisionMode, bool>> {
 protected:
  static LlamaConfig model() {
    return {.layers = 3,
            .hidden = 24,
            .heads = 4,
            .kv_heads = 2,
            .ffn = 40,
            .vocab = kVocab,
            .seq_len = kSeqLen,
            .rope_theta = 100.0,
            .tied = std::get<1>(GetParam())};
  }

  static RunOutcome run(const LayoutCase& layout) {
    return testing::run_as_predicted(
        {.blocks = std::make_shared<const BlockList>(build_llama(model())),
         .options = options_for(std::get<0>(GetParam()), layout),
         .ranks = layout.ranks,
         .steps = kSteps,
         .batches = [](std::int64_t first) { return testing::token_source(kVocab, kSeqLen, first); },
         .targets = [](std::int64_t) { return kGlobalBatch * kSeqLen; },
         .targets_of_sample = kSeqLen},
        layout.to_string());
  }
};

TEST_P(LlamaLayouts, EveryLayoutGivesTheSameState) {
  const RunOutcome expected = run({});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  for (const LayoutCase& layout : kLayouts) EXPECT_TRUE(run(layout) == expected) << layout.to_string();
}

INSTANTIATE_TEST_SUITE_P(Precisions, LlamaLayouts,
                         ::testing::Combine(::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32,
                                                              PrecisionMode::kFp16, PrecisionMode::kBf16,
                                                              PrecisionMode::kFp8),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name(std::get<0>(info.param)),
                                              std::get<1>(info.param) ? "tied" : "untied");
                         });

}  // namespace
}  // namespace trireme
