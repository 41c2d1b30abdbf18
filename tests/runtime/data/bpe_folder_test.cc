// Folders without tokenizer.json. The expected ids come from AutoTokenizer of transformers 5.24 with
// tokenizers 0.23.3, for the same files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/data/tokenizer.h"
#include "tests/runtime/data/small_vocabulary.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;
using Ids = std::vector<std::int32_t>;

class BpeFolderTest : public ::testing::Test {
 protected:
  /// 256 "he", 257 "ll", 258 "hell", 259 " w", 260 "aa", 261 "aaa", then `more`.
  void write_vocabulary(const json& more = json::object()) {
    const json model = testing::tokenizer_of(
        {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {" ", "w"}, {"a", "a"}, {"aa", "a"}})["model"];
    json vocab = model["vocab"];
    vocab.update(more);
    std::string merges = "#version: 0.2\n";
    for (const json& merge : model["merges"]) merges += merge.get<std::string>() + "\n";
    write_file(folder_ / "vocab.json", vocab.dump());
    write_file(folder_ / "merges.txt", merges);
  }
  void write(const char* name, const json& content) { write_file(folder_ / name, content.dump()); }
  std::unique_ptr<Tokenizer> load() { return load_tokenizer(folder_.path().string()); }
  std::string refusal() {
    return message_of([&] { load(); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(BpeFolderTest, AddedTokensFollowTheVocabulary) {
  write_vocabulary();
  write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"}});
  write("added_tokens.json", {{"    ", 262}, {"\t\t", 263}, {"<|im_start|>", 264}});
  EXPECT_EQ(load()->encode("he    w<|im_start|>\t\t\t<|endoftext|>"),
            (Ids{256, 262, 'w', 264, 263, '\t', 265}));
  EXPECT_EQ(load()->vocab_size(), 266);
  write_vocabulary({{"<|endoftext|>", 262}});
  write("added_tokens.json", {{"    ", 263}, {"<|im_start|>", 264}});
  EXPECT_EQ(load()->encode("he    w<|im_start|><|endoftext|>"), (Ids{256, 263, 'w', 264, 262}));
}

TEST_F(BpeFolderTest, TheConfigurationListsThemToo) {
  write_vocabulary({{"<|endoftext|>", 262}});
  write("tokenizer_config.json", {{"tokenizer_class", "CodeGenTokenizer"},
                                  {"added_tokens_decoder",
                                   {{"263", {{"content", "ell"}, {"normalized", true}}},
                                    {"264", {{"content", "lo w"}, {"special", true}}}}}});
  write("added_tokens.json", {{"is not read", 999}});
  EXPECT_EQ(load()->encode("hello world<|endoftext|>ello"),
            (Ids{256, 'l', 264, 'o', 'r', 'l', 'd', 262, 263, 'o'}));
}

TEST_F(BpeFolderTest, SpecialTokensOfTheClassFollow) {
  write_vocabulary({{"<s>", 262}, {"</s>", 263}});
  write("tokenizer_config.json", {{"tokenizer_class", "RobertaTokenizer"}});
  write("special_tokens_map.json", {{"bos_token", "<s>"}, {"additional_special_tokens", {"<x>"}}});
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->encode("<s>hell<x></s><pad><mask>"), (Ids{262, 258, 267, 263, 265, 266}));
  EXPECT_EQ(tokenizer->document_separator(), (Ids{263}));
  // The saved tokenizer.json is equivalent.
  write_file(folder_ / "saved" / "tokenizer.json", tokenizer->model_text());
  EXPECT_EQ(load_saved_tokenizer("bpe", folder_ / "saved")->encode("<x></s>"), (Ids{267, 263}));
}

TEST_F(BpeFolderTest, OtherIdsAndClassesAreRefusedByName) {
  write_vocabulary({{"<|endoftext|>", 262}});
  write("tokenizer_config.json", {{"tokenizer_class", "GPT2TokenizerFast"}});
  write("added_tokens.json", {{"<x>", 700}});
  EXPECT_THAT(refusal(), HasSubstr("'<x>' with the id 700, and transformers would give it 263"));
  write("added_tokens.json", {{"<|endoftext|>", 263}});
  EXPECT_THAT(refusal(), HasSubstr("would give it 262"));
  std::filesystem::remove(folder_ / "added_tokens.json");
  EXPECT_EQ(load()->encode("he"), (Ids{256}));
  for (const char* name : {"Qwen2Tokenizer", "WhisperTokenizer", "CLIPTokenizer", "LlamaTokenizerFast"}) {
    write("tokenizer_config.json", {{"tokenizer_class", name}});
    EXPECT_THAT(refusal(), HasSubstr(name));
  }
  write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", true}});
  EXPECT_THAT(refusal(), HasSubstr("add_prefix_space"));
  write("tokenizer_config.json",
        {{"tokenizer_class", "GPT2Tokenizer"},
         {"added_tokens_decoder", {{"263", {{"content", "<m>"}, {"single_word", true}}}}}});
  EXPECT_THAT(refusal(), HasSubstr("single_word"));
  std::filesystem::remove(folder_ / "tokenizer_config.json");
  write("config.json", {{"tokenizer_class", "Qwen2Tokenizer"}});
  EXPECT_THAT(refusal(), HasSubstr("Qwen2Tokenizer"));
}

TEST_F(BpeFolderTest, AFileThatHasATokenTwiceIsNamed) {
  write_vocabulary();
  write_file(folder_ / "vocab.json", R"({"a": 0, "b": 1, "a": 2})");
  EXPECT_THAT(refusal(), HasSubstr("its vocab.json: it has the name \"a\" twice"));
  write_vocabulary();
  write_file(folder_ / "added_tokens.json", R"({"<x>": 262, "<x>": 263})");
  EXPECT_THAT(refusal(), HasSubstr("added_tokens.json is damaged: it has the name \"<x>\" twice"));
  write_file(folder_ / "tokenizer.json", R"({"model": {"vocab": {"a": 0, "a": 1}}})");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.json: it has the name \"model.vocab.a\" twice"));
}

TEST_F(BpeFolderTest, TokenizerJsonIsComparedWithTheFilesBesideIt) {
  write("tokenizer.json", testing::tokenizer_of({{"h", "e"}}));
  write("added_tokens.json", {{"<|endoftext|>", 257}});
  EXPECT_EQ(load()->encode("he<|endoftext|>"), (Ids{256, 257}));
  write("added_tokens.json", {{"<|endoftext|>", 258}});
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.json has with 257"));
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"258", {{"content", "<x>"}}}}}});
  EXPECT_THAT(refusal(), HasSubstr("'<x>' with the id 258, which its tokenizer.json does not have"));
}

}  // namespace
}  // namespace trireme
