#include "runtime/data/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pcre2.h>

#include <chrono>
#include <random>

#include "runtime/data/onig_expression.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using Pieces = std::vector<std::string>;

Pieces pieces(const std::string& expression, std::string_view text) {
  Pieces all;
  MatchBudget budget(text, 1);
  TextPattern(expression).split(text, budget, [&](std::string_view piece, bool is_match) {
    all.push_back((is_match ? "+" : "-") + std::string(piece));
  });
  return all;
}

/// PCRE2's matches in the whole text, without windows.
Pieces whole_pieces(const std::string& expression, std::string_view text) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  Pieces all;
  std::size_t done = 0;
  while (done < text.size() && pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), done,
                                           PCRE2_NOTEMPTY, match, nullptr) >= 0) {
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
    if (range[0] > done) all.push_back("-" + std::string(text.substr(done, range[0] - done)));
    all.push_back("+" + std::string(text.substr(range[0], range[1] - range[0])));
    done = range[1];
  }
  if (done < text.size()) all.push_back("-" + std::string(text.substr(done)));
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return all;
}

constexpr const char* kPatterns[] = {
    kGpt2Pattern,
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+(?!\S)|\s+)",
    R"(\p{N}{1,3})",
    R"(\s+$)",
    R"(^b+)",
    R"((?<=a)b+c|\bd\w*\b|e\z)"};

// Tests [Note: windows].
TEST(PreTokenizer, WindowsChangeNoPiece) {
  std::mt19937 random(1);
  const std::string atoms[] = {
      "a",    "b",    "c", " ", "\n", "\r\n", "1", "'s", "!", "\xc3\xa9", "\xe4\xbd\xa0", "\xf0\x9f\x9a\xa2",
      "\xff", "\xa9", "D", "e", "\t"};
  for (const char* pattern : kPatterns) {
    const std::string expression = pcre_of_onig(pattern);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      while (text.size() < 600) {
        const std::string& atom = atoms[random() % std::size(atoms)];
        const auto count = random() % 4 == 0 ? random() % 150 : 1 + random() % 3;  // also long runs
        for (std::size_t n = 0; n < count; ++n) text += atom;
      }
      ASSERT_EQ(pieces(expression, text), whole_pieces(expression, text)) << pattern << "\n" << text;
    }
  }
}

TEST(PreTokenizer, LongRunsAreWithinTheBudget) {
  for (const char* pattern : kPatterns) {
    const std::string expression = pcre_of_onig(pattern);
    for (const char* run : {"a", " ", "\n", "1", "!", "A", "\xe4\xbd\xa0", "\xff"}) {
      std::string text;
      while (text.size() < (1 << 18)) text += run;
      EXPECT_EQ(message_of([&] { pieces(expression, text); }), "") << pattern << " on " << run;
    }
  }
}

TEST(PreTokenizer, PatternsThatTakeTooLongAreStopped) {
  const std::string text(100'000, 'a');
  for (const char* pattern : {"[^b]*b|.", "[^b]*b", "(?:a+)+b", "(?:a|aa)+c|a", "a*?a*?a*?a*?b", ".*.*.*x|a",
                              "(?:(?:a{1,100}){1,100}){1,100}b|a"}) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string message = message_of([&] { pieces(pcre_of_onig(pattern), text); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_NE(message, "") << pattern;
    EXPECT_LT(took.count(), 20.0) << pattern << ": "
                                  << message;  // 14 s on an idle machine before the budget, or no end
  }
}

TEST(PreTokenizer, ManyPatternsShareABudget) {
  const std::string text(100'000, 'a');
  const auto spend = [&](std::size_t num_patterns, std::uint64_t units) {
    return message_of([&] { MatchBudget(text, num_patterns).spend(units * 512 * text.size(), text); });
  };
  EXPECT_NE(spend(64, 20), "");
  EXPECT_EQ(spend(5, 6), "");
}

// A match that starts behind its end would repeat for ever.
TEST(PreTokenizer, AMatchThatDoesNotAdvanceIsRefused) {
  EXPECT_THAT(message_of([] { pcre_of_onig(R"((?:(.\K)){0}(?=(?1)))"); }), HasSubstr("not supported"));
  EXPECT_THAT(message_of([] { pcre_of_onig(R"(a\Kb)"); }), HasSubstr("\\K"));
  EXPECT_THAT(message_of([] { pcre_of_onig(R"((?~ab))"); }), HasSubstr("not supported"));
  // As read by PCRE2 itself.
  EXPECT_THAT(message_of([] { pieces(R"((?:(.\K)){0}(?=(?1)).?)", "abc"); }),
              ::testing::AnyOf(HasSubstr("does not advance"), HasSubstr("regular expression")));
}

}  // namespace
}  // namespace trireme
