// BERT: the same bits on every layout in every precision, and predicted memory, while the number of targets
// varies from step to step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/bert.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/masked_tokens.h"
#include "runtime/data/synthetic_tokens.h"
#include "tests/support/predicted_run.h"
#include "tests/support/sample_documents.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 8, kSteps = 4, kSeqLen = 9, kVocab = 37;
constexpr std::int32_t kNumDocuments = 21;

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

EngineOptions options_for(PrecisionMode mode, const LayoutCase& layout, bool documents) {
  EngineOptions options{.global_batch = kGlobalBatch,
                        .micro_batch = 1,
                        .seed = 3,
                        .optimizer = {.weight_decay = 0.1f},
                        .grad_clip = 0.5f,
                        .layout = layout.whole(),
                        .sample = SampleSpec{.input = {kSeqLen}, .target = {kSeqLen}, .documents = documents},
                        .precision = Precision(mode)};
  if (mode == PrecisionMode::kFp16) options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
  return options;
}

using testing::RunOutcome;

std::shared_ptr<const Dataset> masked(std::shared_ptr<const Dataset> tokens, double probability) {
  return std::make_shared<MaskedTokens>(MaskedTokens::Options{.tokens = std::move(tokens),
                                                              .seed = 2,
                                                              .probability = probability,
                                                              .mask_token = kVocab - 1,
                                                              .vocab_size = kVocab});
}

std::shared_ptr<const Dataset> masked_tokens(double probability) {
  return masked(std::make_shared<SyntheticTokens>(SyntheticTokens::Options{
                    .num_samples = 16, .sequence_length = kSeqLen, .vocab_size = kVocab, .seed = 1}),
                probability);
}

std::shared_ptr<const Dataset> documents(bool pack, DocumentDataset::Targets targets) {
  static const testing::TemporaryFolder folder;
  static const std::filesystem::path path =
      testing::write_sample_documents(folder / "train.bin", {.count = kNumDocuments, .vocab = kVocab - 1});
  return std::make_shared<DocumentDataset>(DocumentDataset::Options{.path = path,
                                                                    .sequence_length = kSeqLen,
                                                                    .pack = pack,
                                                                    .class_token = kVocab - 1,
                                                                    .targets = targets,
                                                                    .seed = 4,
                                                                    .vocab_size = kVocab});
}

BatchSource source(const Dataset& data, std::int64_t first) {
  return [&data, first](std::int64_t sample, std::int64_t count) {
    return data.read_train(first + sample, count);
  };
}

class BertLayouts : public ::testing::TestWithParam<PrecisionMode> {
 protected:
  static BertConfig model() {
    return {.layers = 3, .hidden = 24, .heads = 4, .vocab = kVocab, .seq_len = kSeqLen, .dropout = 0.1f};
  }

  static RunOutcome run(const LayoutCase& layout, double probability = 0.15) {
    return run(layout, model(), *masked_tokens(probability));
  }

  static RunOutcome run(const LayoutCase& layout, const BertConfig& config, const Dataset& data) {
    return testing::run_as_predicted(
        {.blocks = std::make_shared<const BlockList>(build_bert(config)),
         .options = options_for(GetParam(), layout, !data.train_documents(0).empty()),
         .ranks = layout.ranks,
         .steps = kSteps,
         .batches = [&data](std::int64_t first) { return source(data, first); },
         .targets = [&data](std::int64_t first) { return data.num_train_targets(first, kGlobalBatch); },
         .targets_of_sample = kSeqLen,
         .look =
             [](const StepResult& result, std::int64_t targets) {
               // The first scale is too large where few targets share the loss.
               EXPECT_EQ(result.skipped, !std::isfinite(result.grad_norm));
               EXPECT_TRUE(!result.skipped || GetParam() == PrecisionMode::kFp16);
               if (targets == 0) {
                 EXPECT_EQ(result.grad_norm, 0);
               }
             }},
        layout.to_string());
  }
};

TEST_P(BertLayouts, EveryLayoutGivesTheSameState) {
  const RunOutcome expected = run({});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  for (const LayoutCase& layout : testing::sampled(kLayouts, 3))
    EXPECT_TRUE(run(layout) == expected) << layout.to_string();
}

TEST_P(BertLayouts, StepsWithoutTargetsToo) {
  constexpr double kNone = 1e-9, kFew = 0.02;  // of kFew, some steps have none
  for (const double probability : {kNone, kFew}) {
    const RunOutcome expected = run({}, probability);
    EXPECT_TRUE(run({.ranks = 4, .zero = 3}, probability) == expected);
    EXPECT_TRUE(run({.ranks = 2, .pipeline = {.pipeline = 2}}, probability) == expected);
    EXPECT_EQ(expected.train_loss == 0, probability == kNone);
  }
}

TEST_P(BertLayouts, PaddedAndPackedDocumentsToo) {
  for (const bool pack : {false, true}) {
    SCOPED_TRACE(pack ? "packed" : "padded");
    const auto data = masked(documents(pack, DocumentDataset::Targets::kTokens), 0.15);
    const RunOutcome expected = run({}, model(), *data);
    EXPECT_GT(expected.train_loss, 0);
    for (const LayoutCase& layout : testing::sampled(kLayouts, 3)) {
      EXPECT_TRUE(run(layout, model(), *data) == expected) << layout.to_string();
    }
  }
}

TEST_P(BertLayouts, ClassesOfDocumentsToo) {
  BertConfig config = model();
  config.classes = 3;
  for (const bool pack : {false, true}) {
    SCOPED_TRACE(pack ? "packed" : "padded");
    const auto data = documents(pack, DocumentDataset::Targets::kLabels);
    EXPECT_EQ(data->num_train_targets(0, data->num_samples()), kNumDocuments);
    const RunOutcome expected = run({}, config, *data);
    for (const LayoutCase& layout : testing::sampled(kLayouts, 3)) {
      EXPECT_TRUE(run(layout, config, *data) == expected) << layout.to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, BertLayouts,
                         ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16,
                                           PrecisionMode::kBf16, PrecisionMode::kFp8),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace trireme
