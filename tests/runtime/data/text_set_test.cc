#include "runtime/data/text_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

/// The pieces, with matches in brackets.
std::vector<std::string> pieces(const TextSet& set, std::string_view text) {
  std::vector<std::string> all;
  MatchBudget budget(text, 1);
  set.split(text, budget, [&](std::string_view piece, bool is_match) {
    all.push_back(is_match ? "[" + std::string(piece) + "]" : std::string(piece));
  });
  return all;
}

TEST(TextSet, FindsTheLeftmostThenTheLongest) {
  const TextSet set({"<a>", "<a>b", "<", "b<a>", "x", "x", "\xc3\xa9"});
  EXPECT_THAT(pieces(set, "<a>bb<a>c"), ElementsAre("[<a>b]", "[b<a>]", "c"));
  EXPECT_THAT(pieces(set, "<a<a"), ElementsAre("[<]", "a", "[<]", "a"));
  EXPECT_THAT(pieces(set, "xx\xc3\xc3\xa9\xff"), ElementsAre("[x]", "[x]", "\xc3", "[\xc3\xa9]", "\xff"));
  EXPECT_THAT(pieces(set, "plain"), ElementsAre("plain"));
  EXPECT_TRUE(pieces(set, "").empty());
}

TEST(TextSet, TheEndOfATextEndsAMatch) {
  const TextSet set({"abc", "ab\xff"});
  EXPECT_THAT(pieces(set, "ab"), ElementsAre("ab"));
  EXPECT_THAT(pieces(set, "zab\xff"), ElementsAre("z", "[ab\xff]"));
}

TEST(TextSet, LongTextsThatAlmostMatchAreBounded) {
  const std::string text(1 << 17, 'a');
  std::vector<std::string> texts;
  texts.push_back(text + "b");
  const TextSet set(std::move(texts));
  EXPECT_THAT(message_of([&] { pieces(set, text); }), HasSubstr("take too long"));
}

}  // namespace
}  // namespace trireme
