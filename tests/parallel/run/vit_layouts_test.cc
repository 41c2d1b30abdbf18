// ViT and CCT: the same bits on every layout in every precision, and predicted memory, with dropout and
// stochastic depth.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "models/cct.h"
#include "models/vit.h"
#include "tests/support/predicted_run.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 8, kSteps = 3, kPixels = 12, kClasses = 5;

struct LayoutCase {
  int ranks = 1, zero = 0, recompute = 0, threads = 1;
  trireme::Layout pipeline;
  int tensor = 1;
  std::string to_string() const {
    return fmt::format("{} ranks, {} of them tensor ranks, zero {}, recompute {}, {} stages, {}", ranks,
                       tensor, zero, recompute, pipeline.pipeline, name(pipeline.schedule));
  }
  trireme::Layout whole() const {
    trireme::Layout all = pipeline;
    all.zero = static_cast<ZeroStage>(zero);
    all.recompute_every = recompute;
    all.tensor = tensor;
    return all;
  }
};

const LayoutCase kLayouts[] = {
    {.ranks = 2, .zero = 0},
    {.threads = 3},
    {.ranks = 4, .zero = 1, .recompute = 1},
    {.ranks = 4, .zero = 2},
    {.ranks = 4, .zero = 3, .recompute = 2},
    {.ranks = 2, .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kGpipe}},
    {.ranks = 4, .zero = 3, .pipeline = {.pipeline = 2}},
    {.ranks = 2,
     .recompute = 1,
     .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kInterleaved, .chunks = 2}},
    {.ranks = 4, .zero = 2, .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1}}};

// Of models in kChunks tensor chunks.
constexpr int kChunks = 4;
const LayoutCase kTensorLayouts[] = {
    {.ranks = 2, .zero = 3},
    {.ranks = 4, .tensor = 4},
    {.ranks = 4, .zero = 2, .recompute = 2, .tensor = 2},
    {.ranks = 4, .recompute = 1, .pipeline = {.pipeline = 2}, .tensor = 2},
    {.ranks = 8, .zero = 3, .tensor = 4},
    {.ranks = 4, .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1}, .tensor = 2}};

EngineOptions options_for(PrecisionMode mode, const LayoutCase& layout) {
  EngineOptions options{
      .threads = layout.threads,
      .global_batch = kGlobalBatch,
      .micro_batch = 1,
      .seed = 3,
      .optimizer = {.weight_decay = 0.1f},
      .grad_clip = 0.5f,
      .layout = layout.whole(),
      .sample = SampleSpec{.input = {kPixels, kPixels, 3}, .input_dtype = DType::kFloat32, .target = {}},
      .precision = Precision(mode)};
  if (mode == PrecisionMode::kFp16) options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
  return options;
}

VitConfig vit(TokenPool pool, int chunks, float dropout) {
  return {.layers = 3,
          .hidden = 24,
          .heads = 4,
          .ffn = 40,
          .patch = 4,
          .image_size = kPixels,
          .classes = kClasses,
          .pool = pool,
          .dropout = dropout,
          .stochastic_depth = 5 * dropout,
          .label_smoothing = 0.1f,
          .tensor_chunks = chunks};
}

BlockList build(const std::string& model, float dropout) {
  const int chunks = model.ends_with("_chunks") ? kChunks : 1;
  if (model == "vit" || model == "vit_chunks") return build_vit(vit(TokenPool::kClassToken, chunks, dropout));
  if (model == "vit_mean") return build_vit(vit(TokenPool::kMean, chunks, dropout));
  return build_cct({.layers = 3,
                    .hidden = 24,
                    .heads = 4,
                    .ffn = 24,
                    .image_size = kPixels,
                    .classes = kClasses,
                    .dropout = dropout,
                    .stochastic_depth = 5 * dropout,
                    .tensor_chunks = chunks});
}

using testing::RunOutcome;

RunOutcome run_on(const LayoutCase& layout, const std::string& model, PrecisionMode mode,
                  float dropout = 0.1f) {
  return testing::run_as_predicted(
      {.blocks = std::make_shared<const BlockList>(build(model, dropout)),
       .options = options_for(mode, layout),
       .ranks = layout.ranks,
       .steps = kSteps,
       .batches = [](std::int64_t first) { return testing::image_source(kPixels, kClasses, first); },
       .targets = [](std::int64_t) { return kGlobalBatch; }},
      layout.to_string());
}

class VitLayouts : public ::testing::TestWithParam<std::tuple<const char*, PrecisionMode>> {
 protected:
  static RunOutcome run(const LayoutCase& layout) {
    return run_on(layout, std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
  static void check(std::span<const LayoutCase> layouts) {
    const RunOutcome expected = run({});
    EXPECT_TRUE(std::isfinite(expected.eval_loss));
    for (const LayoutCase& layout : layouts) EXPECT_TRUE(run(layout) == expected) << layout.to_string();
  }
};

TEST_P(VitLayouts, EveryLayoutGivesTheSameState) {
  check(testing::sampled(kLayouts, 3));
}

class VitTensorLayouts : public VitLayouts {};

TEST_P(VitTensorLayouts, GiveTheSameState) {
  check(kTensorLayouts);
}

TEST(VitChunks, DecideLastBitsAlone) {
  for (const std::string model : {"vit", "cct"}) {
    const RunOutcome whole = run_on({}, model, PrecisionMode::kFp32, 0.0f),
                     cut = run_on({}, model + "_chunks", PrecisionMode::kFp32, 0.0f);
    EXPECT_NE(whole.hash, cut.hash);
    EXPECT_NEAR(whole.train_loss, cut.train_loss, 1e-4f * whole.train_loss) << model;
    EXPECT_NEAR(whole.eval_loss, cut.eval_loss, 1e-4f * whole.eval_loss) << model;
  }
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<const char*, PrecisionMode>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::string(name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(ModelsAndPrecisions, VitLayouts,
                         ::testing::Combine(::testing::Values("vit", "vit_mean", "cct"),
                                            ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32,
                                                              PrecisionMode::kFp16, PrecisionMode::kBf16,
                                                              PrecisionMode::kFp8)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(ModelsAndPrecisions, VitTensorLayouts,
                         ::testing::Combine(::testing::Values("vit_chunks", "cct_chunks"),
                                            ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kFp16,
                                                              PrecisionMode::kBf16)),
                         name_of);

}  // namespace
}  // namespace trireme
