#include "launcher/commands/generated_text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::vector<std::int32_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

class GeneratedTextTest : public ::testing::Test {
 protected:
  /// Passes the bytes of `generated` one by one until the text ends. Returns the text.
  std::string grow(GeneratedText& text, const std::string& generated) {
    const auto tokens = bytes_of(generated);
    for (std::size_t n = 1; n <= tokens.size(); ++n) {
      const std::string before = text.text().substr(0, text.settled());
      const bool goes_on = text.update(std::span(tokens).first(n));
      EXPECT_EQ(text.text().substr(0, before.size()), before) << "what was settled has changed";
      if (!goes_on) break;
    }
    return text.text();
  }

  std::unique_ptr<Tokenizer> bytes_ = make_byte_tokenizer();
};

TEST_F(GeneratedTextTest, GoesOnWithoutStops) {
  GeneratedText text(*bytes_, bytes_of("To be"), {});
  EXPECT_EQ(grow(text, " or not\n\nto be"), "To be or not\n\nto be");
}

TEST_F(GeneratedTextTest, EndsBeforeTheFirstStopBehindThePrompt) {
  GeneratedText text(*bytes_, bytes_of("one. two"), {.texts = {"five", "."}, .tokens = {}});
  EXPECT_EQ(grow(text, " three. four five"), "one. two three");
}

TEST_F(GeneratedTextTest, AStopThatHasBegunIsHeldBack) {
  GeneratedText text(*bytes_, bytes_of("a"), {.texts = {"<|end|>"}, .tokens = {}});
  EXPECT_EQ(grow(text, "bcdefghi<|en"), "abcdefghi<|en");
  EXPECT_LE(text.settled(), std::string("abcdefghi").size());
  EXPECT_FALSE(text.update(bytes_of("bcdefghi<|end|>")));
  EXPECT_EQ(text.text(), "abcdefghi");
}

TEST_F(GeneratedTextTest, EndsWithTheDocument) {
  GeneratedText text(*bytes_, bytes_of("x\n\ny"), {.texts = {}, .tokens = {}, .document = true});
  EXPECT_EQ(grow(text, "z\nz\n\nmore"), "x\n\nyz\nz");
}

TEST_F(GeneratedTextTest, EndsBeforeAToken) {
  GeneratedText text(*bytes_, bytes_of("one. "), {.texts = {}, .tokens = {'!', '.'}});
  EXPECT_EQ(grow(text, "two three. four!"), "one. two three");
  EXPECT_EQ(text.prompt_bytes(), 5u);
}

}  // namespace
}  // namespace trireme
