// Byte-level BPE with a vocabulary of a few merges, whose tokens can be derived by hand. tests/parity/bpe.py
// compares real vocabularies with Hugging Face's library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/data/bpe_model.h"
#include "runtime/data/onig_expression.h"
#include "runtime/data/pre_tokenizer.h"
#include "runtime/data/tokenizer.h"
#include "tests/runtime/data/small_vocabulary.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> pieces(const std::string& pattern, const std::string& text) {
  std::vector<std::string> all;
  MatchBudget budget(text, 1);
  pre_tokenize({TextPattern(pcre_of_onig(pattern))}, text, budget,
               [&](std::string_view piece) { all.emplace_back(piece); });
  return all;
}

// The expected pieces come from tokenizers 0.23.
TEST(PreTokenizer, CutsAsGpt2) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces(kGpt2Pattern, "I'll  be\tthere's 12345 x\xc2\xb2!?\n\n done "),
            (Pieces{"I", "'ll", " ", " be", "\t", "there", "'s", " 12345", " x", "\xc2\xb2", "!?", "\n\n",
                    " done", " "}));
  EXPECT_EQ(pieces(kGpt2Pattern, "na\xc3\xafve \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x9a\xa2\xf0\x9f\x9a\xa2"),
            (Pieces{"na\xc3\xafve", " \xe4\xbd\xa0\xe5\xa5\xbd", " \xf0\x9f\x9a\xa2\xf0\x9f\x9a\xa2"}));
  EXPECT_EQ(pieces(kGpt2Pattern, "a\xff\xfe b"), (Pieces{"a", "\xff\xfe", " b"}));  // invalid UTF-8
  EXPECT_TRUE(pieces(kGpt2Pattern, "").empty());
}

TEST(PreTokenizer, CutsAsLlama3) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces(kLlama3Pattern, "I'LL pay $12345;\n\n  if(x)\n"),
            (Pieces{"I", "'LL", " pay", " $", "123", "45", ";\n\n", " ", " if", "(x", ")\n"}));
}

TEST(PreTokenizer, RefusesAWrongExpression) {
  EXPECT_NE(message_of([] { TextPattern("a(b"); }).find("byte 3"), std::string::npos);
}

TEST(BpeModel, TokensAreWrittenAsCharactersOfBytes) {
  EXPECT_EQ(written_token(" a\n\xc3"),
            "\xc4\xa0"
            "a\xc4\x8a\xc3\x83");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(bytes_of_token(written_token(all)), all);
}

class BpeTokenizerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tokenizer> load(const json& json) {
    write_file(folder_ / "tokenizer.json", json.dump());
    return load_tokenizer((folder_ / "tokenizer.json").string());
  }
  std::string refusal(const json& json) {
    return message_of([&] { load(json); });
  }

  // 256 "he", 257 "ll", 258 "hell", 259 " w", 260 "aa", 261 "aaa"
  const json small_ =
      testing::tokenizer_of({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {" ", "w"}, {"a", "a"}, {"aa", "a"}});
  TemporaryFolder folder_;
};

using Ids = std::vector<std::int32_t>;

TEST_F(BpeTokenizerTest, MergesInTheirOrder) {
  const auto tokenizer = load(small_);
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 263);
  EXPECT_EQ(tokenizer->encode("hello"), (Ids{258, 'o'}));
  EXPECT_EQ(tokenizer->encode("hello world"), (Ids{258, 'o', 259, 'o', 'r', 'l', 'd'}));
  EXPECT_EQ(tokenizer->encode("lll"), (Ids{257, 'l'}));    // the first pair
  EXPECT_EQ(tokenizer->encode("aaaaa"), (Ids{260, 261}));  // "aa" pairs first, then one joins the last "a"
  EXPECT_EQ(tokenizer->encode("hel lo"), (Ids{256, 'l', ' ', 'l', 'o'}));  // pieces are not merged
  EXPECT_EQ(tokenizer->encode("\xff"), (Ids{255}));
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST_F(BpeTokenizerTest, AddedTokensAreFoundInTheText) {
  const auto tokenizer = load(small_);
  EXPECT_EQ(tokenizer->encode("he<|endoftext|>he<|end"), (Ids{256, 262, 256, '<', '|', 'e', 'n', 'd'}));
  EXPECT_EQ(tokenizer->document_separator(), (Ids{262}));
  EXPECT_EQ(tokenizer->decode(Ids{258, 'o', 262}), "hello<|endoftext|>");
  EXPECT_THROW(tokenizer->decode(Ids{263}), Error);
  EXPECT_THROW(tokenizer->decode(Ids{-1}), Error);
}

TEST_F(BpeTokenizerTest, LongPiecesAreQuickAndEveryTextComesBack) {
  const auto tokenizer = load(small_);
  std::string all(300'000, 'a');
  all += std::string(300'000, ' ') + "x" + std::string(300'000, '!');
  for (int i = 0; i < 70'000; ++i) all += static_cast<char>(i * 7919 >> 5);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all)), all);
}

TEST_F(BpeTokenizerTest, WholePiecesComeFirstWhereItSaysSo) {
  json changed = small_;
  changed["model"]["vocab"]["lo"] = 300;  // no merge produces it
  changed["added_tokens"] = json::array();
  EXPECT_EQ(load(changed)->encode("lo"), (Ids{'l', 'o'}));
  changed["model"]["ignore_merges"] = true;
  EXPECT_EQ(load(changed)->encode("lo"), (Ids{300}));
}

// The expected ids come from tokenizers 0.23.3.
TEST_F(BpeTokenizerTest, TheLastMentionOfAMergeCounts) {
  json changed = testing::tokenizer_of({{"a", "b"}, {"b", "c"}});  // 256 "ab", 257 "bc"
  EXPECT_EQ(load(changed)->encode("abc"), (Ids{256, 'c'}));
  changed["model"]["merges"].push_back("a b");
  EXPECT_EQ(load(changed)->encode("abc"), (Ids{'a', 257}));
  changed["model"]["merges"].push_back(json::array({"b", "c"}));
  EXPECT_EQ(load(changed)->encode("abc"), (Ids{256, 'c'}));
}

// A token with characters that represent no bytes is only reachable by its id.
TEST_F(BpeTokenizerTest, TokensThatNoBytesGiveAreOnlyDecoded) {
  json changed = small_;
  changed["model"]["vocab"]["    "] = 300;
  changed["model"]["vocab"]["\xe2\x96\x81"] = 301;
  changed["added_tokens"] = json::array();
  changed["model"]["ignore_merges"] = true;
  const auto tokenizer = load(changed);
  EXPECT_EQ(tokenizer->encode("    "), (Ids{' ', ' ', ' ', ' '}));
  EXPECT_EQ(tokenizer->decode(Ids{300, 301}), "    \xe2\x96\x81");
}

TEST_F(BpeTokenizerTest, AddedTokensThatAreNormalizedComeSecond) {
  json changed = small_;
  changed["added_tokens"].push_back({{"id", 263}, {"content", "ell"}, {"normalized", true}});
  changed["added_tokens"].push_back({{"id", 264}, {"content", "lo w"}, {"normalized", false}});
  EXPECT_EQ(load(changed)->encode("hello worldello"), (Ids{256, 'l', 264, 'o', 'r', 'l', 'd', 263, 'o'}));
}

// The expected ids on the right come from tokenizers 0.15 to 0.23.3, which at most log a warning.
TEST_F(BpeTokenizerTest, IdsOfAddedTokensThatTheirReaderRenumbersAreRefused) {
  const auto added = [&](const std::vector<std::pair<int, const char*>>& tokens) {
    json changed = small_;
    for (const auto& [id, content] : tokens) {
      changed["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", true}});
    }
    return changed;
  };
  const auto refused = [&](const json& changed, const char* token, int listed, int given) {
    EXPECT_THAT(refusal(changed),
                HasSubstr(fmt::format("tokenizer.json: its added token '{}' has the id {}, but "
                                      "Hugging Face's tokenizers assign {}",
                                      token, listed, given)));
  };
  refused(added({{300, "<x>"}}), "<x>", 300, 263);                // a gap
  refused(added({{264, "<y>"}, {263, "<x>"}}), "<y>", 264, 263);  // wrong order
  refused(added({{'a', "<x>"}}), "<x>", 'a', 263);                // id of another token
  refused(added({{263, "ll"}}), "ll", 263, 257);                  // a text of the vocabulary
  refused(added({{263, "<x>"}, {264, "<x>"}}), "<x>", 264, 263);  // twice
  EXPECT_EQ(load(added({{257, "ll"}, {263, "<x>"}}))->encode("<x>ll"), (Ids{263, 257}));

  json holes = small_;
  holes["model"]["vocab"]["<h>"] = 900;
  holes["added_tokens"] = {{{"id", 900}, {"content", "<h>"}}, {{"id", 901}, {"content", "<x>"}}};
  EXPECT_EQ(load(holes)->encode("<x><h>"), (Ids{901, 900}));  // as in tokenizers 0.22
  holes["added_tokens"][1]["id"] = 263;
  EXPECT_EQ(load(holes)->encode("<x><h>"), (Ids{263, 900}));  // as in tokenizers 0.23
  holes["added_tokens"][1]["id"] = 264;
  refused(holes, "<x>", 264, 263);
}

// Otherwise decoding would turn the other token's text into this one.
TEST_F(BpeTokenizerTest, AddedTokensTakeNoOtherTokensId) {
  json changed = small_;
  changed["model"]["vocab"]["<h>"] = 264;  // beyond the vocabulary's size, where added tokens begin
  changed["added_tokens"] = {{{"id", 263}, {"content", "<|endoftext|>"}}};
  EXPECT_EQ(refusal(changed), "");
  changed["added_tokens"].push_back({{"id", 264}, {"content", "<x>"}});
  EXPECT_NE(refusal(changed).find("\"<x>\" has the id 264 of another token"), std::string::npos)
      << refusal(changed);
}

TEST_F(BpeTokenizerTest, VocabAndMergesAreTheSame) {
  const json& model = small_["model"];
  json vocab = model["vocab"];
  vocab["<|endoftext|>"] = 262;
  write_file(folder_ / "gpt2" / "vocab.json", vocab.dump());
  std::string merges = "#version: 0.2\n";
  for (const json& merge : model["merges"]) merges += merge.get<std::string>() + "\n";
  EXPECT_NE(message_of([&] { load_bpe(folder_ / "gpt2"); }).find("merges.txt"), std::string::npos);
  write_file(folder_ / "gpt2" / "merges.txt", merges);
  const auto tokenizer = load_tokenizer((folder_ / "gpt2").string());
  const std::string text = "hello world<|endoftext|>";
  EXPECT_EQ(tokenizer->encode(text), load(small_)->encode(text));
  // The saved file is a tokenizer.json.
  write_file(folder_ / "saved" / "tokenizer.json", tokenizer->model_text());
  EXPECT_EQ(load_saved_tokenizer("bpe", folder_ / "saved")->encode(text), tokenizer->encode(text));
}

// As in vocabularies of image and speech models.
TEST_F(BpeTokenizerTest, ManyAddedTokens) {
  constexpr int kCount = 30'000;
  json many = small_;
  const auto first = many["added_tokens"][0]["id"].get<int>() + 1;
  for (int i = 0; i < kCount; ++i) {
    many["added_tokens"].push_back(
        {{"id", first + i}, {"content", "<|image_" + std::to_string(i) + "|>"}, {"special", true}});
  }
  const auto tokenizer = load(many);
  std::vector<std::int32_t> expected = load(small_)->encode("he");
  for (const int i : {7, 29'999, 70}) expected.push_back(first + i);
  EXPECT_EQ(tokenizer->encode("he<|image_7|><|image_29999|><|image_70|>"), expected);
  EXPECT_EQ(tokenizer->vocab_size(), first + kCount);
}

TEST_F(BpeTokenizerTest, LimitsThePreTokenizers) {
  const auto refusal_of = [&](const json& pre_tokenizer) {
    json copy = small_;
    copy["pre_tokenizer"] = pre_tokenizer;
    return refusal(copy);
  };
  const json byte_level = small_["pre_tokenizer"];
  const json split = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Isolated"}};
  json list(20'000, split);
  list.push_back(byte_level);
  EXPECT_NE(refusal_of({{"type", "Sequence"}, {"pretokenizers", list}}).find("more than 64 pre-tokenizers"),
            std::string::npos);
  json nested = byte_level;
  for (int i = 0; i < 9; ++i) nested = {{"type", "Sequence"}, {"pretokenizers", json::array({nested})}};
  EXPECT_NE(refusal_of(nested).find("nested more than 8 deep"), std::string::npos);
}

TEST_F(BpeTokenizerTest, NamesWhatItDoesNotKnow) {
  const auto changed = [&](const char* pointer, const json& value) {
    json copy = small_;
    copy[json::json_pointer(pointer)] = value;
    return refusal(copy);
  };
  const auto expect_named = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find("tokenizer.json"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_named(changed("/model/type", "WordPiece"), "WordPiece");
  expect_named(changed("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix");
  expect_named(changed("/model/byte_fallback", true), "byte_fallback");
  expect_named(changed("/normalizer", {{"type", "NFC"}}), "NFC");
  expect_named(changed("/pre_tokenizer", {{"type", "Whitespace"}}), "Whitespace");
  expect_named(changed("/pre_tokenizer/add_prefix_space", true), "add_prefix_space");
  expect_named(changed("/pre_tokenizer", nullptr), "no ByteLevel");
  const json split = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Isolated"}};
  const json byte_level = small_["pre_tokenizer"];
  expect_named(changed("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {byte_level, split}}}),
               "Split after ByteLevel");
  expect_named(changed("/added_tokens/0/lstrip", true), "lstrip");
  expect_named(changed("/model/merges/0", "h"), "merge 0");
  expect_named(changed("/model/merges/0", "q z"), "\"qz\"");
  expect_named(changed("/model/vocab", {{"a", 0}, {"<|endoftext|>", 262}}), "byte 0");
  expect_named(changed("/model/vocab/a", -3), "-3");
  expect_named(changed("/model/vocab/a", 98), "the id 98");
  json without = small_;
  without["model"].erase("merges");
  expect_named(refusal(without), "no merges");
  expect_named(message_of([&] {
                 write_file(folder_ / "tokenizer.json", "{");
                 load_bpe(folder_ / "tokenizer.json");
               }),
               "not JSON");
  EXPECT_NE(message_of([&] { load_bpe(folder_ / "absent.json"); }).find("absent.json"), std::string::npos);
}

}  // namespace
}  // namespace trireme
