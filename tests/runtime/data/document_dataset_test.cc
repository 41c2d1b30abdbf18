#include "runtime/data/document_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "runtime/base/error.h"
#include "runtime/data/masked_tokens.h"
#include "runtime/data/packing.h"
#include "tests/support/sample_documents.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Targets = DocumentDataset::Targets;
constexpr std::int64_t kLength = 9;
constexpr std::int32_t kClassToken = 36, kVocab = 37;

class DocumentDatasetTest : public ::testing::Test {
 protected:
  DocumentDataset::Options options(bool pack, Targets targets = Targets::kTokens) const {
    return {.path = path_,
            .sequence_length = kLength,
            .pack = pack,
            .class_token = kClassToken,
            .targets = targets,
            .seed = 4,
            .vocab_size = kVocab};
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = testing::write_sample_documents(folder_ / "train.bin", {});
};

std::vector<std::int32_t> inputs_of(const HostBatch& batch) {
  std::vector<std::int32_t> inputs(batch.targets.size());
  std::memcpy(inputs.data(), batch.inputs.data(), batch.inputs.size());
  return inputs;
}

TEST(PackRows, FillsRowsLongestFirst) {
  const std::vector<std::int32_t> lengths{3, 5, 8, 2, 5, 1};
  const std::vector<std::vector<std::int32_t>> expected{{2}, {1, 0}, {4, 3, 5}};
  EXPECT_EQ(pack_rows(lengths, 8), expected);
  EXPECT_TRUE(pack_rows({}, 8).empty());
}

TEST(PackRows, EveryIndexOnceAndNoRowTooLong) {
  std::vector<std::int32_t> lengths;
  for (std::int32_t i = 0; i < 1000; ++i) lengths.push_back(1 + i * 37 % 64);
  std::set<std::int32_t> seen;
  const auto rows = pack_rows(lengths, 64);
  for (const auto& row : rows) {
    std::int32_t total = 0;
    for (const std::int32_t index : row) {
      EXPECT_TRUE(seen.insert(index).second);
      total += lengths[static_cast<std::size_t>(index)];
    }
    EXPECT_LE(total, 64);
  }
  EXPECT_EQ(seen.size(), lengths.size());
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), 0);
  EXPECT_LE(static_cast<double>(rows.size()), 1.02 * tokens / 64);
}

TEST_F(DocumentDatasetTest, RowsSayWhereDocumentsLie) {
  const DocumentDataset data(options(/*pack=*/false));
  EXPECT_EQ(data.num_samples(), 21);
  EXPECT_EQ(data.num_too_long(), 6);                   // documents of 9, 10 and 11 tokens, two each
  const HostBatch batch = data.read_sequential(2, 1);  // 1 + 14 % 11 = 4 tokens
  EXPECT_EQ(inputs_of(batch), (std::vector<std::int32_t>{36, 26, 27, 30, 35, 0, 0, 0, 0}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{-1, 26, 27, 30, 35, -1, -1, -1, -1}));
  EXPECT_EQ(batch.documents.positions, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 0, 0, 0, 0}));
  EXPECT_EQ(batch.documents.types, (std::vector<std::int32_t>{0, 0, 0, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(batch.documents.key_bounds,
            (std::vector<std::int32_t>{0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 5, 6, 6, 7, 7, 8, 8, 9}));
}

// The bounds, positions and types of a token do not depend on its row.
TEST_F(DocumentDatasetTest, PackedRowsHoldTheSameDocuments) {
  for (const Targets targets : {Targets::kTokens, Targets::kLabels}) {
    std::multiset<std::vector<std::int32_t>> documents[2];
    for (const bool pack : {false, true}) {
      const DocumentDataset data(options(pack, targets));
      const HostBatch batch = data.read_sequential(0, data.num_samples());
      const std::vector<std::int32_t> inputs = inputs_of(batch);
      for (std::int64_t row = 0; row < data.num_samples(); ++row) {
        std::int32_t begin = 0;
        for (const std::int32_t end : data.sequential_documents(row)) {
          std::vector<std::int32_t> content;
          for (std::int32_t t = begin; t < end; ++t) {
            const auto at = static_cast<std::size_t>(row * kLength + t);
            EXPECT_EQ(batch.documents.key_bounds[2 * at], begin);
            EXPECT_EQ(batch.documents.key_bounds[2 * at + 1], end);
            for (const std::int32_t x :
                 {inputs[at], batch.targets[at], batch.documents.positions[at], batch.documents.types[at]}) {
              content.push_back(x);
            }
          }
          documents[pack ? 1 : 0].insert(content);
          begin = end;
        }
      }
      EXPECT_EQ(std::ranges::count_if(batch.targets, [](std::int32_t t) { return t >= 0; }),
                data.num_sequential_targets(0, data.num_samples()));
    }
    EXPECT_EQ(documents[0].size(), 21u);
    EXPECT_EQ(documents[0], documents[1]);
  }
  EXPECT_LT(DocumentDataset(options(true)).num_samples(), 17);
}

TEST_F(DocumentDatasetTest, AnEpochHasEveryRowOnceAndCountsItsTargets) {
  for (const bool pack : {false, true}) {
    const DocumentDataset data(options(pack, Targets::kLabels));
    const std::int64_t n = data.num_samples();
    EXPECT_EQ(data.num_train_targets(0, n), 21);
    EXPECT_EQ(data.num_train_targets(5 * n, n), 21);
    EXPECT_NE(data.read_train(0, n).inputs, data.read_train(n, n).inputs);
    for (std::int64_t i = 0; i < 2 * n; ++i) {
      const HostBatch batch = data.read_train(i, 1);
      EXPECT_EQ(std::ranges::count_if(batch.targets, [](std::int32_t t) { return t >= 0; }),
                data.num_train_targets(i, 1));
      EXPECT_LE(data.num_train_targets(i, 1), data.targets_per_sample());
    }
  }
}

TEST_F(DocumentDatasetTest, MasksSpareClassTokensAndPadding) {
  for (const bool pack : {false, true}) {
    const auto plain = std::make_shared<DocumentDataset>(options(pack));
    const MaskedTokens data(
        {.tokens = plain, .seed = 1, .probability = 0.5, .mask_token = 36, .vocab_size = kVocab});
    for (std::int64_t i = 0; i < 2 * plain->num_samples(); ++i) {
      const HostBatch before = plain->read_train(i, 1), batch = data.read_train(i, 1);
      std::int64_t num_targets = 0;
      for (std::size_t t = 0; t < batch.targets.size(); ++t) {
        if (batch.targets[t] < 0) continue;
        ++num_targets;
        EXPECT_EQ(batch.targets[t], before.targets[t]);  // -1 for class tokens and padding
      }
      EXPECT_EQ(num_targets, data.num_train_targets(i, 1));
      EXPECT_EQ(batch.documents.key_bounds, before.documents.key_bounds);
    }
  }
}

TEST_F(DocumentDatasetTest, RefusesWhatDoesNotFit) {
  DocumentDataset::Options wrong = options(false);
  wrong.sequence_length = 1;
  EXPECT_THROW(DocumentDataset{wrong}, Error);
  wrong = options(false);
  wrong.vocab_size = 36;  // the class token is out of range
  EXPECT_THROW(DocumentDataset{wrong}, Error);
  std::filesystem::resize_file(documents_of(path_), 256 * 4 + 20 * 12);
  EXPECT_THROW(DocumentDataset{options(false)}, Error);
  std::filesystem::remove(documents_of(path_));
  EXPECT_THROW(DocumentDataset{options(false)}, Error);
}

TEST_F(DocumentDatasetTest, LabelsMustBeThere) {
  write_documents(path_, std::vector<Document>(
                             1, {.num_tokens = static_cast<std::int32_t>(TokenFile(path_).num_tokens())}));
  EXPECT_NO_THROW(DocumentDataset{options(false)});
  EXPECT_THROW(DocumentDataset{options(false, Targets::kLabels)}, Error);
}

/// Three conversations of 6, 3 and 12 tokens. Targets are "5" and tokens from 100 on.
class ChatDatasetTest : public ::testing::Test {
 protected:
  using TooLong = DocumentDataset::TooLong;
  DocumentDataset::Options chat_options(std::int64_t length, bool pack = false,
                                        TooLong too_long = TooLong::kCutEnd) const {
    return {.path = path_,
            .sequence_length = length,
            .pack = pack,
            .too_long = too_long,
            .targets = Targets::kNextTokens,
            .seed = 4,
            .vocab_size = 200};
  }
  void write(const std::vector<std::vector<std::int32_t>>& chats) const {
    TokenFileWriter tokens(path_, kTokens16), marks(marks_of(path_), kTokens16);
    std::vector<Document> documents;
    for (const auto& chat : chats) {
      tokens.append(chat);
      std::vector<std::int32_t> mark;
      for (const std::int32_t token : chat) mark.push_back(token == 5 || token >= 100 ? 1 : 0);
      marks.append(mark);
      documents.push_back({.num_tokens = static_cast<std::int32_t>(chat.size())});
    }
    tokens.commit();
    marks.commit();
    write_documents(path_, documents);
  }
  void SetUp() override {
    write({{1, 2, 100, 5, 3, 101}, {1, 2, 102}, {1, 5, 2, 2, 2, 2, 2, 2, 2, 2, 103, 104}});
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "chats.bin";
};

TEST_F(ChatDatasetTest, TheNextTokenIsTheTargetWhereItIsMarked) {
  const DocumentDataset data(chat_options(12));
  EXPECT_EQ(data.num_samples(), 3);
  EXPECT_EQ(data.num_too_long(), 0);
  EXPECT_EQ(data.num_filled(), 5 + 2 + 11);
  EXPECT_EQ(data.num_sequential_targets(0, 3), 3 + 1 + 3);
  const HostBatch batch = data.read_sequential(0, 1);
  EXPECT_EQ(inputs_of(batch), (std::vector<std::int32_t>{1, 2, 100, 5, 3, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{-1, 100, 5, -1, 101, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_TRUE(batch.documents.empty());  // padding follows, which a causal model does not see
}

TEST_F(ChatDatasetTest, PackedConversationsHaveBoundsAndPositions) {
  const DocumentDataset data(chat_options(8, /*pack=*/true, TooLong::kDrop));
  EXPECT_EQ(data.num_samples(), 1);
  EXPECT_EQ(data.num_too_long(), 1);
  const HostBatch batch = data.read_sequential(0, 1);
  EXPECT_EQ(inputs_of(batch), (std::vector<std::int32_t>{1, 2, 100, 5, 3, 1, 2, 0}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{-1, 100, 5, -1, 101, -1, 102, -1}));
  EXPECT_EQ(batch.documents.positions, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 0, 1, 0}));
  EXPECT_EQ(batch.documents.types, (std::vector<std::int32_t>(8, 0)));
  EXPECT_EQ(batch.documents.key_bounds,
            (std::vector<std::int32_t>{0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 5, 7, 5, 7, 7, 8}));
}

TEST_F(ChatDatasetTest, LongConversationsAreCutOrDropped) {
  const DocumentDataset end(chat_options(5)), beginning(chat_options(5, false, TooLong::kCutBeginning)),
      dropped(chat_options(5, false, TooLong::kDrop));
  for (const DocumentDataset* data : {&end, &beginning, &dropped}) EXPECT_EQ(data->num_too_long(), 1);
  EXPECT_EQ(inputs_of(end.read_sequential(2, 1)), (std::vector<std::int32_t>{1, 5, 2, 2, 2}));
  EXPECT_EQ(end.read_sequential(2, 1).targets, (std::vector<std::int32_t>{5, -1, -1, -1, -1}));
  EXPECT_EQ(inputs_of(beginning.read_sequential(2, 1)), (std::vector<std::int32_t>{2, 2, 2, 2, 103}));
  EXPECT_EQ(beginning.read_sequential(2, 1).targets, (std::vector<std::int32_t>{-1, -1, -1, 103, 104}));
  EXPECT_EQ(dropped.num_samples(), 2);
}

TEST_F(ChatDatasetTest, ConversationsWithoutTargetsAreLeftOut) {
  write({{1, 2, 3}, {1, 2, 2, 2, 2, 100}, {5}, {1, 100}});
  const DocumentDataset whole(chat_options(5));
  EXPECT_EQ(whole.num_samples(), 2);
  EXPECT_EQ(whole.num_without_targets(), 2);
  const DocumentDataset cut(chat_options(3));
  EXPECT_EQ(cut.num_samples(), 1);  // the only target of the second was cut off
  EXPECT_EQ(cut.num_without_targets(), 3);
  write({{1, 2, 3}});
  EXPECT_THROW(DocumentDataset(chat_options(5)), Error);
}

TEST_F(ChatDatasetTest, RefusesMarksThatDoNotFit) {
  TokenFileWriter marks(marks_of(path_), kTokens16);
  marks.append(std::vector<std::int32_t>{0, 1, 0});
  marks.commit();
  EXPECT_THROW(DocumentDataset(chat_options(5)), Error);
  std::filesystem::remove(marks_of(path_));
  EXPECT_THROW(DocumentDataset(chat_options(5)), Error);
}

}  // namespace
}  // namespace trireme
