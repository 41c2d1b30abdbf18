#include "runtime/data/sentencepiece_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <cstdint>
#include <unordered_map>

#include "runtime/base/error.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/tokenizer.h"
#include "tests/runtime/data/sample_text.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_file;
using testing::write_file;

std::string field(int number, const std::string& content) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  std::size_t size = content.size();
  for (; size >= 0x80; size >>= 7) bytes += static_cast<char>((size & 0x7F) | 0x80);
  bytes += static_cast<char>(size);
  return bytes + content;
}

/// A charsmap: a trie and its strings.
struct Charsmap {
  std::array<std::uint32_t, 256> units{};
  std::uint32_t trie_bytes = sizeof units;
  std::string strings = std::string("b\0", 2);

  /// Maps "a" to the string at `value`.
  explicit Charsmap(std::uint32_t value = 0) {
    units.fill(1);       // a label that matches no byte at its position
    units[0] = 2 << 10;  // the root: children at 2 ^ byte
    units[2 ^ 'a'] = ((2U ^ 'a' ^ 128U) << 10) | 1 << 8 | 'a';  // its value is at 128
    units[128] = 1U << 31 | value;
  }
  std::string blob() const {
    std::string bytes(reinterpret_cast<const char*>(&trie_bytes), sizeof trie_bytes);
    bytes.append(reinterpret_cast<const char*>(units.data()), sizeof units);
    return bytes + strings;
  }
};

class SentencePieceCheck : public ::testing::Test {
 protected:
  SentencePieceCheck() {
    write_file(folder_ / "a.txt", testing::sample_text(200));
    const std::array<std::filesystem::path, 1> inputs = {folder_ / "a.txt"};
    train_sentencepiece(inputs, folder_ / "plain.model", {.vocab_size = 350});
  }
  /// The error of loading the model with `blob` as the rules of its normalizer (3) or denormalizer (5).
  std::string refusal(const std::string& blob, int normalizer = 3) {
    write_file(folder_ / "my.model", read_file(folder_ / "plain.model") + field(normalizer, field(2, blob)));
    return message_of([&] { load_sentencepiece(folder_ / "my.model"); });
  }
  testing::TemporaryFolder folder_;
};

TEST_F(SentencePieceCheck, TakesRulesWithinBounds) {
  EXPECT_EQ(refusal(Charsmap().blob()), "");
  const auto tokenizer = load_sentencepiece(folder_ / "my.model");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("banana")), "bbnbnb");
  EXPECT_EQ(refusal(""), "");
}

// The trie of Unicode's compatibility forms has 100,000 units.
TEST_F(SentencePieceCheck, TakesTheRulesOfTheLibrary) {
  for (const char* rule : {"nmt_nfkc", "nfkc_cf"}) {
    const std::unordered_map<std::string, std::string> arguments = {
        {"input", (folder_ / "a.txt").string()},
        {"model_prefix", (folder_ / rule).string()},
        {"model_type", "bpe"},
        {"vocab_size", "100"},
        {"hard_vocab_limit", "false"},
        {"normalization_rule_name", rule},
        {"minloglevel", "2"}};
    ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train(arguments).ok());
    const auto model = folder_ / (std::string(rule) + ".model");
    EXPECT_GT(std::filesystem::file_size(model), 200'000u);
    EXPECT_EQ(message_of([&] { load_sentencepiece(model); }), "") << rule;
  }
}

TEST_F(SentencePieceCheck, RefusesWhatLeadsOut) {
  for (const int normalizer : {3, 5}) {
    Charsmap far;
    far.units[0] = 0x1FFFFFU << 10;
    EXPECT_THAT(
        refusal(far.blob(), normalizer),
        AllOf(HasSubstr("my.model"), HasSubstr("precompiled_charsmap"), HasSubstr("unit 0 of its trie")));
  }
  Charsmap leaf;
  leaf.units[0] = 1U << 31 | 0x1FFFFFU << 10;  // the library follows the root anyway
  EXPECT_THAT(refusal(leaf.blob()), HasSubstr("unit 0 of its trie"));
  Charsmap farther;
  farther.units[2 ^ 'a'] = 0x1FFFFFU << 10 | 1 << 9 | 'a';  // an offset scaled by 256
  EXPECT_THAT(refusal(farther.blob()), HasSubstr("of its trie leads to"));
  EXPECT_THAT(refusal(Charsmap(2).blob()), HasSubstr("has a string at 2"));
  EXPECT_THAT(refusal(Charsmap(0x7FFFFFFF).blob()), HasSubstr("has a string at 2147483647"));
}

TEST_F(SentencePieceCheck, RefusesSizesAndStrings) {
  Charsmap map;
  for (const std::uint32_t bytes : {0U, 1023U, 1026U, 1028U, 0xFFFFFFFFU}) {
    map.trie_bytes = bytes;
    EXPECT_THAT(refusal(map.blob()), HasSubstr("its trie has")) << bytes;
  }
  map = Charsmap();
  map.strings = "b";
  EXPECT_THAT(refusal(map.blob()), HasSubstr("its last string does not end"));
  map.strings = std::string("\xff\0", 2);
  EXPECT_THAT(refusal(map.blob()), HasSubstr("no UTF-8"));
  map = Charsmap(1);
  map.strings = std::string("\xc3\xa9\0", 3);
  EXPECT_THAT(refusal(map.blob()), HasSubstr("has a string at 1"));
  EXPECT_THAT(refusal("ab"), HasSubstr("it has 2 bytes"));
}

// The library's trie throws its own exception, which must become an Error.
TEST_F(SentencePieceCheck, RefusesAPieceThatBeginsWithNul) {
  const std::unordered_map<std::string, std::string> arguments = {
      {"input", (folder_ / "a.txt").string()},
      {"model_prefix", (folder_ / "plain").string()},
      {"model_type", "unigram"},
      {"vocab_size", "60"},
      {"hard_vocab_limit", "false"},
      {"minloglevel", "2"}};
  ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train(arguments).ok());
  const std::string piece = field(1, std::string("\0a", 2));
  write_file(folder_ / "my.model", read_file(folder_ / "plain.model") + field(1, piece));
  EXPECT_THAT(message_of([&] { load_sentencepiece(folder_ / "my.model"); }),
              AllOf(HasSubstr("my.model is not a sentencepiece model"), HasSubstr("zero-length key")));
}

TEST_F(SentencePieceCheck, RefusesWhatIsNoMessage) {
  for (const std::string& bytes :
       {std::string("\x1a\xff", 2), std::string("\x1b\x1c", 2), std::string("\x1a\x05")}) {
    EXPECT_THAT(message_of([&] { check_sentencepiece_model(bytes, "x.model"); }),
                HasSubstr("x.model is not a sentencepiece model"));
  }
}

}  // namespace
}  // namespace trireme
