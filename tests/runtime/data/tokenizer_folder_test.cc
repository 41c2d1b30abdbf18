#include "runtime/data/tokenizer_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "runtime/data/sentencepiece_tokenizer.h"
#include "tests/runtime/data/sample_text.h"
#include "tests/runtime/data/small_vocabulary.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;

class TokenizerFolderTest : public ::testing::Test {
 protected:
  void write_model(const char* name) {
    write_file(folder_ / "training.txt", testing::sample_text(100));
    const std::array<fs::path, 1> training = {folder_ / "training.txt"};
    train_sentencepiece(training, tokenizer_ / name, {.vocab_size = 350});
  }
  std::string_view kind() { return load_tokenizer_folder(tokenizer_)->kind(); }
  void write_json(const nlohmann::json& json) { write_file(tokenizer_ / "tokenizer.json", json.dump()); }

  testing::TemporaryFolder folder_;
  fs::path tokenizer_ = folder_ / "tokenizer";
};

TEST_F(TokenizerFolderTest, TakesASentencepieceModel) {
  fs::create_directories(tokenizer_);
  write_model("tokenizer.model");
  EXPECT_EQ(kind(), "sentencepiece");
  EXPECT_EQ(load_tokenizer(tokenizer_.string())->vocab_size(), 350);
}

TEST_F(TokenizerFolderTest, PrefersTheModelToWhatWasConvertedFromIt) {
  fs::create_directories(tokenizer_);
  write_model("tokenizer.model");
  nlohmann::json json = testing::tokenizer_of({{"h", "e"}});
  write_json(json);
  EXPECT_EQ(kind(), "bpe");
  json["model"]["byte_fallback"] = true;
  write_json(json);
  EXPECT_EQ(kind(), "sentencepiece");
  json["model"] = {{"type", "Unigram"}, {"vocab", nlohmann::json::array()}};
  write_json(json);
  EXPECT_EQ(kind(), "sentencepiece");
  write_file(tokenizer_ / "tokenizer.json", "{");
  EXPECT_THAT(message_of([&] { kind(); }), HasSubstr("not JSON"));
}

TEST_F(TokenizerFolderTest, NamesTheFilesThatWouldBeTaken) {
  fs::create_directories(tokenizer_);
  const auto refusal = [&] { return message_of([&] { kind(); }); };
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("tokenizer.model"), HasSubstr("vocab.json")));
  write_model("spiece.model");
  EXPECT_THAT(refusal(), HasSubstr("it has spiece.model: give that file itself"));
  write_file(tokenizer_ / "tokenizer.model", "IQ== 0\nIg== 1\n");
  EXPECT_THAT(refusal(), HasSubstr("tiktoken"));
}

}  // namespace
}  // namespace trireme
