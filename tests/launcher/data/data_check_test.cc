// The reaction of each command if the data differs from the data record of a checkpoint.
#include "launcher/data/data_check.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

DataRecord known() {
  return {.samples = 24,
          .pass_samples = 225,
          .train = DataFingerprint{.contents = "1800 tokens", .hash = 0xa1},
          .eval = DataFingerprint{.contents = "200 tokens", .hash = 0xb1},
          .tokenizer = {.kind = "bpe", .hash = 0xc1, .vocab_size = 300},
          .class_names = {"cat", "dog"},
          .images = ImageRecord{.size = 32, .mean = {0.5, 0.5, 0.5}, .stddev = {1, 1, 1}}};
}

/// A record with one different fact.
DataRecord with_other(DataFact fact) {
  DataRecord record = known();
  switch (fact) {
    case DataFact::kSamples:
      record.samples = 48;
      break;
    case DataFact::kTokenizer:
      record.tokenizer.hash = 0xc2;
      break;
    case DataFact::kClassNames:
      record.class_names = {"cat", "horse"};
      break;
    case DataFact::kImageSize:
      record.images->size = 48;
      break;
    case DataFact::kNormalisation:
      record.images->mean = {0.25, 0.5, 0.5};
      break;
    case DataFact::kTrainingData:
      record.train = DataFingerprint{.contents = "1700 tokens", .hash = 0xa2};
      break;
    case DataFact::kEvaluationData:
      record.eval = DataFingerprint{.contents = "210 tokens", .hash = 0xb2};
      break;
  }
  return record;
}

MetData met(DataRecord data, bool new_data = false) {
  return {.checkpoint = "run/checkpoints/step-000003",
          .data = std::move(data),
          .train = "data.train = \"tokens\"",
          .eval = "data.eval = \"held\"",
          .tokenizer = "--tokenizer \"other.json\"",
          .classes = "data.train = \"photos\"",
          .new_data = new_data};
}

std::string refusal(Meeting meeting, const MetData& met) {
  return error_message([&] { compare_data(meeting, known(), met); });
}

/// For each compared fact: parts of the message with both values and the key or file that has them.
const std::map<DataFact, std::vector<std::string>> kValues{
    {DataFact::kTokenizer,
     {"another tokenizer: bpe of 300 tokens, hash 00000000000000c1, and --tokenizer \"other.json\" has bpe "
      "of 300 tokens, hash 00000000000000c2"}},
    {DataFact::kClassNames,
     {"label 1 is 'dog' in run/checkpoints/step-000003 and 'horse' in data.train = \"photos\""}},
    {DataFact::kImageSize, {"data.image_size = 32, data.center = 1", "data.image_size = 48"}},
    {DataFact::kNormalisation, {"data.mean = [0.5, 0.5, 0.5]", "data.mean = [0.25, 0.5, 0.5]"}},
    {DataFact::kTrainingData,
     {"other training data: 1800 tokens, hash 00000000000000a1, 225 samples a pass, and data.train = "
      "\"tokens\" has 1700 tokens, hash 00000000000000a2"}},
    {DataFact::kEvaluationData,
     {"other evaluation data: 200 tokens, hash 00000000000000b1, and data.eval = \"held\" has 210 tokens"}}};

/// The expected reaction of each command to a different fact: "never" refused, refused "unless"
/// checkpoint.new_data is set, "always" refused, or a warning ("w").
struct ExpectedRow {
  DataFact fact;
  std::array<std::string_view, kNumMeetings> rules;  // resume, init_from, eval, sample, export
};
constexpr ExpectedRow kExpected[] = {
    {DataFact::kSamples, {"never", "never", "never", "never", "never"}},
    {DataFact::kTokenizer, {"unless", "unless", "always", "always", "never"}},
    {DataFact::kClassNames, {"always", "never", "always", "never", "never"}},
    {DataFact::kImageSize, {"unless", "never", "w", "never", "never"}},
    {DataFact::kNormalisation, {"unless", "unless", "w", "never", "never"}},
    {DataFact::kTrainingData, {"unless", "never", "never", "never", "never"}},
    {DataFact::kEvaluationData, {"unless", "never", "always", "never", "never"}}};

TEST(DataCheck, EveryFactIsComparedAtEveryMeetingThatItMattersTo) {
  ASSERT_EQ(data_fact_rows().size(), std::size(kExpected));
  for (const auto& [fact, rules] : kExpected) {
    for (std::size_t m = 0; m < kNumMeetings; ++m) {
      const auto meeting = static_cast<Meeting>(m);
      SCOPED_TRACE(
          fmt::format("{}, {}", data_fact_rows()[static_cast<std::size_t>(fact)].name, kMeetingNames[m]));
      const MetData same = met(known()), other = met(with_other(fact)), meant = met(with_other(fact), true);
      EXPECT_THAT(compare_data(meeting, known(), same).warnings, SizeIs(0));
      if (rules[m] == "never" || rules[m] == "w") {
        EXPECT_THAT(compare_data(meeting, known(), other).warnings, SizeIs(rules[m] == "w" ? 1 : 0));
        continue;
      }
      for (const std::string& value : kValues.at(fact))
        EXPECT_THAT(refusal(meeting, other), HasSubstr(value));
      EXPECT_THAT(refusal(meeting, other), HasSubstr("run/checkpoints/step-000003"));
      const std::string remedy(data_fact_rows()[static_cast<std::size_t>(fact)].at(meeting).text);
      EXPECT_THAT(refusal(meeting, other), HasSubstr(". " + remedy));
      EXPECT_EQ(remedy.find("checkpoint.new_data = true") != std::string::npos, rules[m] == "unless");
      if (rules[m] == "always") {
        EXPECT_EQ(refusal(meeting, meant), refusal(meeting, other));
        continue;
      }
      const DataChanges changes = compare_data(meeting, known(), meant);
      ASSERT_THAT(changes.warnings, SizeIs(1));
      EXPECT_THAT(changes.warnings[0], HasSubstr("(checkpoint.new_data = true)"));
      EXPECT_EQ(changes.training_data, fact == DataFact::kTrainingData);
    }
  }
}

TEST(DataCheck, WhatIsNotKnownAgrees) {
  for (std::size_t m = 0; m < kNumMeetings; ++m) {
    const auto meeting = static_cast<Meeting>(m);
    EXPECT_THAT(compare_data(meeting, {}, met(known())).warnings, SizeIs(0));
    EXPECT_THAT(compare_data(meeting, known(), met({})).warnings, SizeIs(0));
  }
  EXPECT_THAT(describe_unknown_data({}, "run/checkpoints/step-000003"),
              HasSubstr("run/checkpoints/step-000003 is of an earlier build"));
  EXPECT_EQ(describe_unknown_data(known(), "run/checkpoints/step-000003"), "");
}

// The same files give other samples if the row length or packing changes.
TEST(DataCheck, OtherSamplesOfTheSameFilesAreOtherData) {
  DataRecord longer = known();
  longer.pass_samples = 112;
  EXPECT_THAT(refusal(Meeting::kResume, met(longer)),
              AllOf(HasSubstr("225 samples a pass"), HasSubstr("112 samples a pass")));
}

TEST(DataCheck, TheKeyThatCutsOtherSamplesIsNamed) {
  DataRecord saved = known(), longer = known();
  saved.rows = RowRecord{.seq_len = 8};
  longer.rows = RowRecord{.seq_len = 16};
  longer.pass_samples = 112;
  EXPECT_THAT(error_message([&] { compare_data(Meeting::kResume, saved, met(longer)); }),
              AllOf(HasSubstr("225 samples a pass with model.seq_len = 8, and"),
                    HasSubstr("112 samples a pass with model.seq_len = 16. The files are the same: set "
                              "model.seq_len = 8 back"),
                    ::testing::Not(HasSubstr("Bring the data back"))));
}

TEST(DataCheck, RoundedNormalisationIsTheSame) {
  DataRecord rounded = known();
  rounded.images->mean[0] += 1e-8;
  EXPECT_THAT(compare_data(Meeting::kInitFrom, known(), met(rounded)).warnings, SizeIs(0));
}

TEST(DataCheck, RepairedPicturesAreAWarning) {
  DataRecord saved = known(), repaired = known();
  for (DataRecord* record : {&saved, &repaired}) record->train->names_hash = record->eval->names_hash = 7;
  repaired.train->hash = 0xa3;
  repaired.eval->hash = 0xb3;
  const DataChanges changes = compare_data(Meeting::kResume, saved, met(repaired));
  ASSERT_THAT(changes.warnings, SizeIs(2));
  EXPECT_THAT(changes.warnings[0], HasSubstr("the names of the files are the same, and so is their order"));
  EXPECT_FALSE(changes.training_data);  // reading continues at its position
  repaired.train->names_hash = 8;
  EXPECT_THAT(error_message([&] { compare_data(Meeting::kResume, saved, met(repaired)); }),
              HasSubstr("other training data"));
}

// Tokenizers are compared by content if both contents are known, otherwise by kind and size.
TEST(DataCheck, TokenizersDifferByContent) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "a/tokenizer.json", "{\"a\": 1}");
  testing::write_file(folder / "b/renamed.json", "{\"a\": 1}");
  testing::write_file(folder / "c/tokenizer.json", "{\"a\": 2}");
  const auto a = read_tokenizer_record("bpe", folder / "a/tokenizer.json", 300);
  EXPECT_TRUE(is_same(a, read_tokenizer_record("bpe", folder / "b/renamed.json")));
  EXPECT_FALSE(is_same(a, read_tokenizer_record("bpe", folder / "c/tokenizer.json", 300)));
  EXPECT_FALSE(is_same(a, {.kind = "bytes", .vocab_size = 300}));
  EXPECT_FALSE(is_same(a, {.kind = "bpe", .vocab_size = 301}));
  EXPECT_TRUE(is_same(a, {}));
  EXPECT_THAT(error_message([&] { read_tokenizer_record("bpe", folder / "absent.json"); }),
              HasSubstr("absent.json"));
  EXPECT_EQ(record_of(*make_byte_tokenizer()).hash, 0u);
}

/// All rules as a Markdown table, as in launcher/design_notes.md.
std::string as_markdown() {
  std::string text = "| |";
  for (const std::string_view name : kMeetingNames) text += fmt::format(" {} |", name);
  text += "\n| --- |";
  for (std::size_t m = 0; m < kNumMeetings; ++m) text += " --- |";
  text += "\n";
  for (const DataFactRow& row : data_fact_rows()) {
    text += fmt::format("| {} |", row.name);
    for (const DataRuleCell& cell : row.cells) text += fmt::format(" {} |", word_of(cell.rule));
    text += "\n";
  }
  return text;
}

TEST(DataCheck, TheDesignNotesHaveItsTable) {
  EXPECT_THAT(testing::read_file(TRIREME_SOURCE_DIR "/launcher/design_notes.md"), HasSubstr(as_markdown()));
}

// Every cell has a text: a remedy, or the reason why the fact is not compared.
TEST(DataCheck, EveryCellHasAText) {
  for (const DataFactRow& row : data_fact_rows()) {
    EXPECT_EQ(row.fact, data_fact_rows()[static_cast<std::size_t>(row.fact)].fact);
    for (const DataRuleCell& cell : row.cells) EXPECT_FALSE(cell.text.empty()) << row.name;
  }
}

}  // namespace
}  // namespace trireme
