#include "runtime/data/prepare_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "runtime/data/document_file.h"
#include "tests/runtime/data/small_vocabulary.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PrepareChatTest : public ::testing::Test {
 protected:
  PrepareChatSummary prepare(std::vector<RenderedChat> chats, const std::string& tokenizer = "bytes",
                             double eval_fraction = 0.0, std::vector<std::string> special_tokens = {}) {
    PrepareChatOptions options{.output = folder_ / "out", .tokenizer = tokenizer};
    options.special_tokens = std::move(special_tokens);
    options.eval_fraction = eval_fraction;
    options.num_shown = 1;
    std::size_t index = 0;
    options.next = [&]() -> std::optional<RenderedChat> {
      if (index == chats.size()) return std::nullopt;
      return chats[index++];
    };
    options.show = [&](std::span<const ChatRun> runs) {
      for (const ChatRun& run : runs) shown_ += run.is_target ? "<" + run.text + ">" : run.text;
    };
    return prepare_chat(options);
  }
  std::string refusal_of(const RenderedChat& chat, const std::string& tokenizer = "bytes",
                         std::vector<std::string> special_tokens = {}) {
    try {
      prepare({chat}, tokenizer, 0.0, std::move(special_tokens));
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
      return error.what();
    }
    return "nothing was refused";
  }
  std::vector<std::int32_t> read(const char* name) const {
    const TokenFile file(folder_ / "out" / name);
    std::vector<std::int32_t> values(static_cast<std::size_t>(file.num_tokens()));
    file.read(0, file.num_tokens(), values.data());
    return values;
  }
  /// Byte-level BPE with the tokens "\n\n" and "<|endoftext|>".
  std::string bpe() const {
    std::ofstream(folder_ / "tokenizer.json") << testing::tokenizer_of({{"\n", "\n"}}).dump();
    return (folder_ / "tokenizer.json").string();
  }

  testing::TemporaryFolder folder_;
  std::string shown_;
};

TEST_F(PrepareChatTest, MarksTheTokensOfTargets) {
  const PrepareChatSummary summary =
      prepare({{.where = "f:1", .text = "Q: hi A: yo;", .targets = {{{8, 12}}}},
               {.where = "f:2", .text = "abc", .targets = {{{0, 3}}}}});
  EXPECT_EQ(shown_, "Q: hi A:< yo;>");
  EXPECT_EQ(summary.target_tokens, 4 + 2);  // the first token of a conversation is no target
  EXPECT_EQ(summary.longest, 12);
  EXPECT_EQ(summary.info.train_documents, 2);
  EXPECT_EQ(read("train.bin").size(), 15u);
  EXPECT_THAT(read("train.targets"), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 1));
  const DocumentFile file(folder_ / "out" / "train.bin");
  ASSERT_EQ(file.documents().size(), 2u);
  EXPECT_EQ(file.documents()[0].num_tokens, 12);
  EXPECT_EQ(file.documents()[1].num_tokens, 3);
}

TEST_F(PrepareChatTest, SpreadsConversationsForEvaluation) {
  std::vector<RenderedChat> chats;
  for (int i = 0; i < 10; ++i)
    chats.push_back(
        {.where = "f", .text = std::string(2, static_cast<char>('a' + i)), .targets = {{{1, 2}}}});
  prepare(chats, "bytes", 0.2);
  EXPECT_THAT(read("eval.bin"), ElementsAre('e', 'e', 'j', 'j'));
  EXPECT_THAT(read("eval.targets"), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(read("train.bin").size(), 16u);
  prepare(chats);  // without evaluation: nothing remains of it
  for (const char* name : {"eval.bin", "eval.documents", "eval.targets"})
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / name)) << name;
}

TEST_F(PrepareChatTest, ATokenMustNotCrossABorder) {
  const std::string tokenizer = bpe();
  const RenderedChat good{.where = "f:1", .text = "a\nb<|endoftext|>", .targets = {{{2, 16}}}};
  prepare({good}, tokenizer);
  EXPECT_THAT(read("train.targets"), ElementsAre(0, 0, 1, 1));
  std::filesystem::remove_all(folder_ / "out");
  const std::string text =
      refusal_of({.where = "f:7", .text = "a\n\n<|endoftext|>", .targets = {{{2, 16}}}}, tokenizer);
  EXPECT_THAT(text, HasSubstr("f:7: a token crosses the border"));
}

TEST_F(PrepareChatTest, NamesWhatIsMissing) {
  EXPECT_THAT(refusal_of({.where = "f:3", .text = "abc", .targets = {{{2, 2}}}}),
              HasSubstr("f:3: no token of the conversation is a target"));
  EXPECT_THAT(refusal_of({.where = "f:3", .text = "abc", .targets = {{{0, 1}}}}),
              HasSubstr("f:3: no token of the conversation is a target"));
  const RenderedChat chat{.where = "f:1", .text = "abc", .targets = {{{1, 3}}}};
  const std::string tokenizer = bpe();
  EXPECT_THAT(refusal_of(chat, tokenizer, {"<|endoftext|>", "<|im_end|>"}),
              HasSubstr("special token <|im_end|>, which the vocabulary does not have"));
  prepare({chat}, tokenizer, 0.0, {"<|endoftext|>"});
}

}  // namespace
}  // namespace trireme
