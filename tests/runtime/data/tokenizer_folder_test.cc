#include "runtime/data/tokenizer_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "runtime/data/bpe_model.h"
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

TEST_F(TokenizerFolderTest, TokensThatAreTheBytesAreThoseOfTheByteTokenizer) {
  fs::create_directories(tokenizer_);
  nlohmann::json json = nlohmann::json::parse(tokenizer_json_of_bytes());
  write_json(json);
  EXPECT_EQ(kind(), "bytes");
  json["added_tokens"] = {{{"content", "<end>"}, {"id", 256}}};
  write_json(json);
  EXPECT_EQ(kind(), "bpe");
  json = nlohmann::json::parse(tokenizer_json_of_bytes());
  json["normalizer"] = {{"type", "NFC"}};
  write_json(json);
  EXPECT_THAT(message_of([&] { kind(); }), HasSubstr("NFC"));
}

TEST_F(TokenizerFolderTest, TokensThatAreAddedToASentencepieceModelAreRefusedByName) {
  fs::create_directories(tokenizer_);
  write_model("tokenizer.model");
  const std::string known = R"({"<unk>": 0, "</s>": 2})";
  const auto refusal = [&](const char* name, const std::string& content) {
    write_file(tokenizer_ / name, content);
    const std::string message = message_of([&] { kind(); });
    fs::remove(tokenizer_ / name);
    return message;
  };
  EXPECT_EQ(refusal("added_tokens.json", known), "");
  EXPECT_THAT(
      refusal("added_tokens.json", R"({"<|im_start|>": 350})"),
      AllOf(HasSubstr("its added_tokens.json lists the added token '<|im_start|>' with the id 350, which "
                      "tokenizer.model does not have"),
            HasSubstr("tokenizer/tokenizer.model itself")));
  EXPECT_THAT(refusal("added_tokens.json", R"({"</s>": 3})"),
              HasSubstr("'</s>' with the id 3, which tokenizer.model "
                        "has with 2"));
  EXPECT_EQ(refusal("special_tokens_map.json", R"({"bos_token": {"content": "<s>"}, "pad_token": "</s>"})"),
            "");
  EXPECT_THAT(
      refusal("special_tokens_map.json", R"({"bos_token": "<s>", "pad_token": "<pad>"})"),
      HasSubstr("its special_tokens_map.json or tokenizer_config.json lists the added token '<pad>', which"));
  EXPECT_THAT(refusal("special_tokens_map.json", R"({"additional_special_tokens": ["<s>", "<x>"]})"),
              HasSubstr("'<x>'"));
  EXPECT_EQ(
      refusal("tokenizer_config.json", R"({"pad_token": null, "unk_token": "<unk>", "eos_token": "</s>"})"),
      "");
  EXPECT_THAT(refusal("tokenizer_config.json", R"({"pad_token": "[PAD]"})"),
              HasSubstr("its tokenizer_config.json lists the added token '[PAD]'"));
  EXPECT_EQ(refusal("tokenizer_config.json", R"({"added_tokens_decoder": {"1": {"content": "<s>"}}})"), "");
  EXPECT_THAT(refusal("tokenizer_config.json", R"({"added_tokens_decoder": {"350": {"content": "<x>"}}})"),
              HasSubstr("its tokenizer_config.json lists the added token '<x>' with the id 350"));
  EXPECT_THAT(refusal("tokenizer_config.json", R"({"pad_token": [1]})"), HasSubstr("tokenizer is damaged"));
  EXPECT_THAT(refusal("added_tokens.json", "{"), HasSubstr("added_tokens.json is damaged"));
  // Loading the model file directly ignores them.
  write_file(tokenizer_ / "added_tokens.json", R"({"<x>": 350})");
  EXPECT_EQ(load_tokenizer((tokenizer_ / "tokenizer.model").string())->vocab_size(), 350);
  // A tokenizer.json that was converted from the model is rejected as well.
  nlohmann::json json = testing::tokenizer_of({});
  json["model"]["byte_fallback"] = true;
  write_json(json);
  EXPECT_THAT(message_of([&] { kind(); }), HasSubstr("'<x>' with the id 350"));
  json["added_tokens"].push_back({{"id", 350}, {"content", "<x>"}});
  write_json(json);
  EXPECT_EQ(kind(), "sentencepiece");  // and logs this
}

TEST_F(TokenizerFolderTest, RefusesLinksOutOfTheFolder) {
  write_file(folder_ / "secret", testing::tokenizer_of({{"h", "e"}}).dump());
  fs::create_directories(tokenizer_);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"}) {
    fs::create_symlink("../secret", tokenizer_ / name);
    EXPECT_THAT(message_of([&] { kind(); }), AllOf(HasSubstr(name), HasSubstr("outside of its folder")));
    fs::remove(tokenizer_ / name);
    if (std::string(name) == "vocab.json") write_file(tokenizer_ / name, "{}");
  }
  fs::remove(tokenizer_ / "vocab.json");
  write_file(tokenizer_ / "files/a", testing::tokenizer_of({{"h", "e"}}).dump());
  fs::create_symlink("files/a", tokenizer_ / "tokenizer.json");
  EXPECT_EQ(kind(), "bpe");
  EXPECT_EQ(load_saved_tokenizer("bpe", tokenizer_)->kind(), "bpe");
  fs::remove(tokenizer_ / "tokenizer.json");
  fs::create_symlink("../secret", tokenizer_ / "tokenizer.json");
  EXPECT_THAT(message_of([&] { load_saved_tokenizer("bpe", tokenizer_); }),
              HasSubstr("outside of its folder"));
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
