#include "runtime/data/sentencepiece_tokenizer.h"

#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <filesystem>
#include <string>
#include <unordered_map>

#include "runtime/data/tokenizer.h"
#include "tests/runtime/data/sample_text.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::sample_text;
using testing::TemporaryFolder;
using testing::write_file;

class SentencePiece : public ::testing::Test {
 protected:
  void train(const std::string& name, std::int64_t vocab_size) {
    write_file(folder_ / "a.txt", sample_text(200));
    write_file(folder_ / "b.txt", "one more file, without a line end");
    const std::array<std::filesystem::path, 2> inputs = {folder_ / "a.txt", folder_ / "b.txt"};
    train_sentencepiece(inputs, folder_ / name, {.vocab_size = vocab_size});
  }
  TemporaryFolder folder_;
};

TEST_F(SentencePiece, EveryTextComesBack) {
  train("my.model", 400);
  const auto tokenizer = load_tokenizer((folder_ / "my.model").string());
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->model_text(), testing::read_file(folder_ / "my.model"));
  for (const std::string& text :
       {sample_text(50), std::string("  two  spaces,\ttabs\r\n\n\n   and lines \n"),
        std::string("\xe2\x82\xac \xf0\x9f\x9a\xa2 \xc3\xa9 <s> </s> <unk> 0123"), std::string("")}) {
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
  const std::string text = sample_text(50);
  EXPECT_LT(tokenizer->encode(text).size(), text.size() / 3) << "the vocabulary saves little";
  EXPECT_EQ(tokenizer->document_separator().size(), 1u);
}

TEST_F(SentencePiece, FactsTellModelsThatChangeText) {
  train("my.model", 400);
  const SentencePieceFacts facts = sentencepiece_facts(folder_ / "my.model");
  EXPECT_TRUE(facts.is_plain_bpe);
  EXPECT_EQ(facts.unk, "<unk>");
  EXPECT_EQ(facts.bos, "<s>");
  EXPECT_EQ(facts.eos, "</s>");
  using Settings = std::unordered_map<std::string, std::string>;
  for (const Settings& other :
       {Settings{{"model_type", "unigram"}}, Settings{{"byte_fallback", "false"}},
        Settings{{"normalization_rule_name", "nmt_nfkc"}}, Settings{{"add_dummy_prefix", "true"}},
        Settings{{"remove_extra_whitespaces", "true"}}}) {
    Settings settings = other;
    settings.insert({{"input", (folder_ / "a.txt").string()},
                     {"model_prefix", (folder_ / "other").string()},
                     {"vocab_size", "400"},
                     {"hard_vocab_limit", "false"},
                     {"model_type", "bpe"},
                     {"byte_fallback", "true"},
                     {"normalization_rule_name", "identity"},
                     {"add_dummy_prefix", "false"},
                     {"remove_extra_whitespaces", "false"},
                     {"minloglevel", "2"}});
    ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train(settings).ok());
    EXPECT_FALSE(sentencepiece_facts(folder_ / "other.model").is_plain_bpe) << other.begin()->first;
  }
}

TEST_F(SentencePiece, TheSameTextGivesTheSameModel) {
  train("one.model", 350);
  train("two.model", 350);
  EXPECT_EQ(testing::read_file(folder_ / "one.model"), testing::read_file(folder_ / "two.model"));
}

TEST_F(SentencePiece, ImpossibleVocabulariesAreRefusedAndLeaveNothing) {
  for (const std::int64_t vocab_size : {0, 100, 60'000, 70'000}) {
    const std::string message = message_of([&] { train("my.model", vocab_size); });
    EXPECT_NE(message.find(std::to_string(vocab_size)), std::string::npos) << message;
    EXPECT_NE(message.find("my.model"), std::string::npos) << message;
    EXPECT_EQ(folder_.num_entries(), 2) << "the two texts";
  }
}

TEST_F(SentencePiece, AMissingTextIsNamed) {
  const std::array<std::filesystem::path, 1> inputs = {folder_ / "missing.txt"};
  const std::string message =
      message_of([&] { train_sentencepiece(inputs, folder_ / "my.model", {.vocab_size = 400}); });
  EXPECT_NE(message.find("missing.txt"), std::string::npos) << message;
  EXPECT_EQ(folder_.num_entries(), 0);
}

TEST_F(SentencePiece, RefusesFilesThatAreNoModels) {
  const auto model = folder_ / "my.model";
  const auto message = [&] { return message_of([&] { load_sentencepiece(model); }); };
  write_file(model, "a text");
  EXPECT_NE(message().find("my.model is not a sentencepiece model"), std::string::npos) << message();
  std::filesystem::resize_file(model, std::uintmax_t{1} << 40);  // a sparse file
  EXPECT_NE(message().find("it has 1099511627776 bytes"), std::string::npos) << message();
}

TEST_F(SentencePiece, RefusesIdsOutsideOfTheVocabulary) {
  train("my.model", 350);
  const auto tokenizer = load_sentencepiece(folder_ / "my.model");
  EXPECT_THROW(tokenizer->decode(std::array{350}), Error);
  EXPECT_THROW(tokenizer->decode(std::array{-1}), Error);
}

}  // namespace
}  // namespace trireme
