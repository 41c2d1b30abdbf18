#include "runtime/data/onig_expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/pre_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

std::vector<std::string> pieces(const std::string& pattern, const std::string& text) {
  std::vector<std::string> all;
  MatchBudget budget(text, 1);
  pre_tokenize({TextPattern(pcre_of_onig(pattern))}, text, budget,
               [&](std::string_view piece) { all.emplace_back(piece); });
  return all;
}

// The expected pieces come from Split(Regex(pattern), "isolated") of tokenizers 0.23.3.
TEST(OnigExpression, CutsAsTokenizers) {
  const struct {
    const char *pattern, *text;
    std::vector<std::string> pieces;
  } cases[] = {
      {R"(\s+(?!\S)|\s+)",
       "a\xe1\xa0\x8e b\x1c c\xc2\x85"
       "d",
       {"a\xe1\xa0\x8e", " ", "b\x1c", " ", "c", "\xc2\x85", "d"}},
      {R"([^\S\r\n]+)",
       "a \xe3\x80\x80\x0a"
       "b\xe1\xa0\x8e"
       "c",
       {"a", " \xe3\x80\x80",
        "\x0a"
        "b\xe1\xa0\x8e"
        "c"}},
      {R"(a{1,2}+)", "aaaaab", {"aaaaa", "b"}},
      {R"(xa{,2})", "xaaab", {"xaa", "ab"}},
      {R"(\s+$)",
       "a  \x0a"
       "b  ",
       {"a", "  ",
        "\x0a"
        "b",
        "  "}},
      {R"(^b)",
       "a\x0a"
       "b",
       {"a\x0a", "b"}},
      {R"((?m:.+))",
       "ab\x0a"
       "cd",
       {"ab\x0a"
        "cd"}},
      {R"(\h+)", "xyz12fg", {"xyz", "12f", "g"}},
      {R"(\p{N}{1,3}+)", "12345a", {"12345", "a"}},
      {R"(\p{N}{1,3})", "12345a", {"123", "45", "a"}},
      {R"(\w+)",
       "a\xcc\x81\xc2\xb2\xe2\x92\xb6-\xe2\x80\xbf!",
       {"a\xcc\x81\xc2\xb2\xe2\x92\xb6", "-", "\xe2\x80\xbf", "!"}},
      {R"(\p{L}+)",
       "\xf0\xb1\x8d\x90\xe1\xb2\x89\xe4\xb8\x80x1",
       {"\xf0\xb1\x8d\x90\xe1\xb2\x89\xe4\xb8\x80x", "1"}},
      {R"(\p{Han}+)",
       "\xe3\x80\x81\xe4\xb8\x80\xf0\xb1\x8d\x90"
       "a",
       {"\xe3\x80\x81", "\xe4\xb8\x80\xf0\xb1\x8d\x90", "a"}},
      {R"([\P{L}])", "a1\xf0\xb1\x8d\x90", {"a", "1", "\xf0\xb1\x8d\x90"}},
      {R"(\p{^L})", "a1", {"a", "1"}},
      {R"((?i:'s|'t))", "it'S is'\xc5\xbf", {"it", "'S", " is", "'\xc5\xbf"}},
      {R"(\bab\b)",
       "ab cab\xcc\x81"
       "b",
       {"ab",
        " cab\xcc\x81"
        "b"}},
      {R"(\u0061\x62\v)", "ab\x0b", {"ab\x0b"}},
      {R"([[:space:]])", "a\xe1\xa0\x8e b", {"a\xe1\xa0\x8e", " ", "b"}},
      {R"((?<x>a)(b))", "ab", {"ab"}},
      {R"((?<!a)b|[^ab])", "ab b", {"ab", " ", "b"}},
      {R"(\p{N}++|.)", "12a", {"12", "a"}},
      {R"([\r\n]*\S+?)",
       "\x0a\x0a"
       "ab",
       {"\x0a\x0a"
        "a",
        "b"}},
      {R"([a\-z\]])", "-b]z", {"-", "b", "]", "z"}},
      {R"((?i)B\p{N})", "b1 B2", {"b1", " ", "B2"}},
      {R"((?:ab){2}+)", "ababababx", {"abababab", "x"}},
      {R"(.)", "a\x0d\x0a\xc2\x85", {"a", "\x0d", "\x0a", "\xc2\x85"}},
      {R"([!-/:-@\[-`{-~])", "a.[b`", {"a", ".", "[", "b", "`"}},
      {R"(\R)",
       "a\x0d\x0a"
       "b\xe2\x80\xa8",
       {"a", "\x0d\x0a", "b", "\xe2\x80\xa8"}},
  };
  for (const auto& [pattern, text, expected] : cases) EXPECT_EQ(pieces(pattern, text), expected) << pattern;
}

TEST(OnigExpression, RefusesWhatHasNoTranslation) {
  const struct {
    const char *pattern, *named;
  } cases[] = {{R"((a)\1)", "\\1"},
               {R"([a&&b])", "set within a set"},
               {R"([a[b]])", "set within a set"},
               {R"(\p{Greek})", "Greek"},
               {R"(\p{Cn})", "Cn"},
               {R"(a{2}?)", "{n}?"},
               {R"(a(?i)b|c)", "group"},
               {R"((?x)a)", "group"},
               {R"((?i:ss))", "ligature"},
               {R"((?i:\p{Lu}))", "Lu"},
               {R"([[:punct:]])", "bracket"},
               {R"(\X)", "\\X"},
               {R"(\xff)", "no character"},
               {R"([a)", "not closed"},
               {R"((a)", "not closed"},
               {R"(a))", "closes no group"},
               {R"(*a)", "repeat"},
               {"\\", "backslash"},
               {R"([z-a])", "ends before"}};
  for (const auto& [pattern, named] : cases) {
    EXPECT_THAT(message_of([&, pattern = pattern] { pcre_of_onig(pattern); }), HasSubstr(named)) << pattern;
  }
  EXPECT_THAT(message_of([] { TextPattern(pcre_of_onig("a*")); }), HasSubstr("empty text"));
}

// Expressions of 8 KB that expanded to 50 MB, which each quantifier moved.
TEST(OnigExpression, RefusesWhatGrowsBeyondAllUse) {
  std::string bounds;
  for (int i = 0; i < 3000; ++i) bounds += "\\b";
  EXPECT_THAT(message_of([&] { pcre_of_onig("(?:" + bounds + "a)" + std::string(2000, '+')); }),
              HasSubstr("more set of characters"));
  EXPECT_THAT(message_of([] { pcre_of_onig("a" + std::string(100, '+')); }),
              HasSubstr("quantifier too many"));
  EXPECT_EQ(message_of([] { pcre_of_onig("a+{2,3}?+b\\b\\w+"); }), "");
}

}  // namespace
}  // namespace trireme
