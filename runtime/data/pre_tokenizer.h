// Cuts text into the pieces within which byte pairs are merged, by the regular expressions of a vocabulary.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/match_budget.h"

namespace trireme {

/// A regular expression of PCRE2 over UTF-8, with Unicode's classes of characters; those of vocabularies pass
/// through pcre_of_onig() first. Bytes that are no UTF-8 match nothing.
class TextPattern {
 public:
  /// Throws Error(kInvalidInput) with the place of what is wrong in the expression, and for one that can
  /// match the empty text.
  explicit TextPattern(const std::string& expression);

  /// Calls visit(piece, is_match) for the matches and for what lies between them; together they are `text`.
  /// Throws Error(kInvalidInput) when `budget` is used up ([Note: match budget]), for a match that does not
  /// advance, and for one that takes more memory than an expression may.
  void split(std::string_view text, MatchBudget& budget,
             const std::function<void(std::string_view, bool)>& visit) const;

 private:
  std::string expression_;
  std::shared_ptr<const void> code_;
};

/// An expression that matches `text` alone.
std::string literal_pattern(std::string_view text);

/// The pieces of GPT-2: contractions, words and numbers with the space before them, signs, spaces. For
/// pcre_of_onig().
inline constexpr const char* kGpt2Pattern =
    R"('(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Calls visit(piece) for the pieces that `patterns` leave, each cutting those of the one before. Recurses
/// once for each pattern.
void pre_tokenize(const std::vector<TextPattern>& patterns, std::string_view text, MatchBudget& budget,
                  const std::function<void(std::string_view)>& visit);

}  // namespace trireme
