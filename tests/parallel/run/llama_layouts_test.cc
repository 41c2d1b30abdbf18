// Llama, tied and not: the same bits on every layout in every precision, and predicted memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "models/llama.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 8, kSteps = 4, kSeqLen = 9, kVocab = 37;

struct Layout {
  int ranks = 1, zero = 0, recompute = 0;
  PipelineOptions pipeline;
  std::string to_string() const {
    return fmt::format("{} ranks, zero {}, recompute {}, {} stages, {}", ranks, zero, recompute,
                       pipeline.stages, name(pipeline.schedule));
  }
};

const Layout kLayouts[] = {
    {.ranks = 2, .zero = 0},
    {.ranks = 4, .zero = 1, .recompute = 1},
    {.ranks = 4, .zero = 2},
    {.ranks = 4, .zero = 3, .recompute = 2},
    {.ranks = 2, .pipeline = {.stages = 2, .schedule = PipelineSchedule::kGpipe}},
    {.ranks = 4, .zero = 3, .pipeline = {.stages = 2}},
    {.ranks = 2,
     .recompute = 1,
     .pipeline = {.stages = 2, .schedule = PipelineSchedule::kInterleaved, .chunks = 2}},
    {.ranks = 4, .zero = 2, .pipeline = {.stages = 2, .schedule = PipelineSchedule::kZeroBubbleH1}}};

EngineOptions options_for(PrecisionMode mode, const Layout& layout) {
  EngineOptions options{.global_batch = kGlobalBatch,
                        .micro_batch = 1,
                        .seed = 3,
                        .optimizer = {.weight_decay = 0.1f},
                        .grad_clip = 0.5f,
                        .zero = static_cast<ZeroStage>(layout.zero),
                        .recompute_every = layout.recompute,
                        .pipeline = layout.pipeline,
                        .sample = SampleSpec{.input = {kSeqLen}, .target = {kSeqLen}},
                        .precision = Precision(mode)};
  if (mode == PrecisionMode::kFp16) options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
  return options;
}

struct Outcome {
  std::uint64_t hash = 0;
  float eval_loss = 0;
  bool operator==(const Outcome&) const = default;
};

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

  static Outcome run(const Layout& layout) {
    const auto blocks = std::make_shared<const BlockList>(build_llama(model()));
    const EngineOptions options = options_for(std::get<0>(GetParam()), layout);
    Outcome outcome;
    std::mutex mutex;
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(blocks, comm, options);
      const StepPrediction predicted =
          predict_step(blocks, options, *options.sample, layout.ranks, comm->rank());
      while (engine.steps_done() < kSteps) {
        const std::int64_t first = engine.steps_done() * kGlobalBatch;
        StepResult result =
            engine.step(testing::token_source(kVocab, kSeqLen, first), kGlobalBatch * kSeqLen, 1e-2);
        result.memory.peak[MemoryCategory::kWorkspace] = 0;
        const std::lock_guard lock(mutex);
        EXPECT_EQ(result.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
        EXPECT_EQ(result.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
        EXPECT_EQ(result.sent_bytes, predicted.sent_bytes) << layout.to_string();
      }
      const Outcome mine{engine.state_hash(),
                         engine.evaluate(testing::token_source(kVocab, kSeqLen, 777), 5, 5 * kSeqLen)};
      if (comm->rank() == 0) outcome = mine;
    });
    return outcome;
  }
};

TEST_P(LlamaLayouts, EveryLayoutGivesTheSameState) {
  const Outcome expected = run({});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  for (const Layout& layout : kLayouts) EXPECT_TRUE(run(layout) == expected) << layout.to_string();
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
