// ViT and CCT: the same bits on every layout in every precision, and predicted memory, with dropout and
// stochastic depth.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "models/cct.h"
#include "models/vit.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 8, kSteps = 3, kPixels = 12, kClasses = 5;

struct Layout {
  int ranks = 1, zero = 0, recompute = 0, threads = 1;
  PipelineOptions pipeline;
  std::string to_string() const {
    return fmt::format("{} ranks, zero {}, recompute {}, {} stages, {}", ranks, zero, recompute,
                       pipeline.stages, name(pipeline.schedule));
  }
};

const Layout kLayouts[] = {
    {.ranks = 2, .zero = 0},
    {.threads = 3},
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
  EngineOptions options{
      .threads = layout.threads,
      .global_batch = kGlobalBatch,
      .micro_batch = 1,
      .seed = 3,
      .optimizer = {.weight_decay = 0.1f},
      .grad_clip = 0.5f,
      .zero = static_cast<ZeroStage>(layout.zero),
      .recompute_every = layout.recompute,
      .pipeline = layout.pipeline,
      .sample = SampleSpec{.input = {kPixels, kPixels, 3}, .input_dtype = DType::kFloat32, .target = {}},
      .precision = Precision(mode)};
  if (mode == PrecisionMode::kFp16) options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
  return options;
}

VitConfig vit(TokenPool pool) {
  return {.layers = 3,
          .hidden = 24,
          .heads = 4,
          .ffn = 40,
          .patch = 4,
          .image_size = kPixels,
          .classes = kClasses,
          .pool = pool,
          .dropout = 0.1f,
          .stochastic_depth = 0.5f,
          .label_smoothing = 0.1f};
}

BlockList build(const std::string& model) {
  if (model == "vit") return build_vit(vit(TokenPool::kClassToken));
  if (model == "vit_mean") return build_vit(vit(TokenPool::kMean));
  return build_cct({.layers = 3,
                    .hidden = 24,
                    .heads = 4,
                    .ffn = 24,
                    .image_size = kPixels,
                    .classes = kClasses,
                    .dropout = 0.1f,
                    .stochastic_depth = 0.5f});
}

struct Outcome {
  std::uint64_t hash = 0;
  float eval_loss = 0, train_loss = 0;
  bool operator==(const Outcome&) const = default;
};

class VitLayouts : public ::testing::TestWithParam<std::tuple<const char*, PrecisionMode>> {
 protected:
  static Outcome run(const Layout& layout) {
    const auto& [model, mode] = GetParam();
    const auto blocks = std::make_shared<const BlockList>(build(model));
    const EngineOptions options = options_for(mode, layout);
    Outcome outcome;
    std::mutex mutex;
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(blocks, comm, options);
      const StepPrediction predicted =
          predict_step(blocks, options, *options.sample, layout.ranks, comm->rank());
      float train_loss = 0;
      while (engine.steps_done() < kSteps) {
        const std::int64_t first = engine.steps_done() * kGlobalBatch;
        StepResult result = engine.step(testing::image_source(kPixels, kClasses, first), kGlobalBatch, 1e-2);
        train_loss += result.loss;
        result.memory.peak[MemoryCategory::kWorkspace] = 0;
        const std::lock_guard lock(mutex);
        EXPECT_EQ(result.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
        EXPECT_EQ(result.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
        EXPECT_EQ(result.sent_bytes, predicted.sent_bytes) << layout.to_string();
      }
      const Outcome mine{engine.state_hash(),
                         engine.evaluate(testing::image_source(kPixels, kClasses, 777), 5, 5), train_loss};
      if (comm->rank() == 0) outcome = mine;
    });
    return outcome;
  }
};

TEST_P(VitLayouts, EveryLayoutGivesTheSameState) {
  const Outcome expected = run({});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  for (const Layout& layout : kLayouts) EXPECT_TRUE(run(layout) == expected) << layout.to_string();
}

INSTANTIATE_TEST_SUITE_P(ModelsAndPrecisions, VitLayouts,
                         ::testing::Combine(::testing::Values("vit", "vit_mean", "cct"),
                                            ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32,
                                                              PrecisionMode::kFp16, PrecisionMode::kBf16,
                                                              PrecisionMode::kFp8)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace trireme
