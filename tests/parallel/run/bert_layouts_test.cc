// BERT on batches whose number of targets varies: steps without targets, padded and packed documents,
// classes.
#include <gtest/gtest.h>

#include <cmath>

#include "models/bert.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/masked_tokens.h"
#include "runtime/data/synthetic_tokens.h"
#include "tests/support/layout_families.h"
#include "tests/support/sample_documents.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::LayoutFamily;
using testing::RankedLayout;
using testing::RunOutcome;

constexpr std::int64_t kSeqLen = 9, kVocab = 37;
constexpr std::int32_t kNumDocuments = 21;
constexpr double kMasked = 0.15;

std::shared_ptr<const Dataset> masked(std::shared_ptr<const Dataset> tokens, double probability = kMasked) {
  return std::make_shared<MaskedTokens>(MaskedTokens::Options{.tokens = std::move(tokens),
                                                              .seed = 2,
                                                              .probability = probability,
                                                              .mask_token = kVocab - 1,
                                                              .vocab_size = kVocab});
}

/// Masked tokens, with targets in some samples of each third global batch only, or in no sample.
class FewTargets final : public Dataset {
 public:
  explicit FewTargets(bool has_targets) : has_targets_(has_targets) {}

  std::int64_t num_samples() const override { return data_->num_samples(); }
  std::int64_t targets_per_sample() const override { return data_->targets_per_sample(); }
  std::int64_t num_train_targets(std::int64_t first, std::int64_t count) const override {
    std::int64_t targets = 0;
    for (std::int64_t i = first; i < first + count; ++i) {
      if (keeps(i)) targets += data_->num_train_targets(i, 1);
    }
    return targets;
  }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override {
    HostBatch batch = data_->read_train(first, count);
    const auto clear = [&](std::vector<std::int32_t>& numbers, std::int64_t row) {
      const auto each = std::ssize(numbers) / count;
      std::fill_n(numbers.begin() + row * each, each, -1);
    };
    for (std::int64_t row = 0; row < count; ++row) {
      if (keeps(first + row)) continue;
      clear(batch.targets, row);
      clear(batch.target_positions, row);
    }
    return batch;
  }
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override {
    return read_train(first, count);
  }

 private:
  bool keeps(std::int64_t sample) const {
    return has_targets_ && sample / testing::kFamilyBatch % 3 == 0 && sample % 5 == 0;
  }

  const bool has_targets_;
  const std::shared_ptr<const Dataset> data_ =
      masked(std::make_shared<SyntheticTokens>(SyntheticTokens::Options{
          .num_samples = 16, .sequence_length = kSeqLen, .vocab_size = kVocab, .seed = 1}));
};

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

LayoutFamily bert_on(const std::shared_ptr<const Dataset>& data, int classes = 0) {
  BertConfig config{
      .layers = 3, .hidden = 24, .heads = 4, .vocab = kVocab, .seq_len = kSeqLen, .dropout = 0.1f};
  if (classes > 0) config.classes = classes;
  return {
      .name = "bert",
      .build = [config] { return build_bert(config); },
      .sample = {.input = {kSeqLen},
                 .target = {kSeqLen},
                 .target_positions = classes > 0 ? 0 : MaskedTokens::num_targets(kSeqLen, kMasked),
                 .documents = !data->train_documents(0).empty()},
      .batches =
          [data](std::int64_t first) {
            return [data, first](std::int64_t sample, std::int64_t count) {
              return data->read_train(first + sample, count);
            };
          },
      .targets = [data](std::int64_t first) { return data->num_train_targets(first, testing::kFamilyBatch); },
      .targets_of_sample = kSeqLen,
      .steps = 4};
}

class BertLayouts : public ::testing::TestWithParam<PrecisionMode> {
 protected:
  static RunOutcome run(const LayoutFamily& family, const RankedLayout& layout = {}) {
    return testing::run_family(family, GetParam(), layout,
                               [](const StepResult& result, std::int64_t targets) {
                                 // The first scale is too large if few targets share the loss.
                                 EXPECT_EQ(result.skipped, !std::isfinite(result.grad_norm));
                                 EXPECT_TRUE(!result.skipped || GetParam() == PrecisionMode::kFp16);
                                 if (targets == 0) {
                                   EXPECT_EQ(result.grad_norm, 0);
                                 }
                               });
  }
  static RunOutcome check(const LayoutFamily& family) {
    const RunOutcome expected = run(family);
    for (const RankedLayout& layout : testing::sampled(testing::common_layouts(), 3))
      EXPECT_TRUE(run(family, layout) == expected) << layout.to_string();
    return expected;
  }
};

TEST_P(BertLayouts, StepsWithoutTargetsGiveTheSameState) {
  for (const bool has_targets : {false, true}) {
    const LayoutFamily family = bert_on(std::make_shared<FewTargets>(has_targets));
    const RunOutcome expected = run(family);
    EXPECT_TRUE(run(family, {.ranks = 4, .layout = {.zero = ZeroStage::kParameters}}) == expected);
    EXPECT_TRUE(run(family, {.ranks = 2, .layout = {.pipeline = 2}}) == expected);
    EXPECT_EQ(expected.train_loss == 0, !has_targets);
  }
}

TEST_P(BertLayouts, PaddedAndPackedDocumentsGiveTheSameState) {
  for (const bool pack : {false, true}) {
    SCOPED_TRACE(pack ? "packed" : "padded");
    EXPECT_GT(check(bert_on(masked(documents(pack, DocumentDataset::Targets::kTokens)))).train_loss, 0);
  }
}

TEST_P(BertLayouts, ClassesOfDocumentsGiveTheSameState) {
  for (const bool pack : {false, true}) {
    SCOPED_TRACE(pack ? "packed" : "padded");
    const auto data = documents(pack, DocumentDataset::Targets::kLabels);
    EXPECT_EQ(data->num_train_targets(0, data->num_samples()), kNumDocuments);
    check(bert_on(data, 3));
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, BertLayouts,
                         ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16,
                                           PrecisionMode::kBf16, PrecisionMode::kFp8),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace trireme
