// Splits text into the pieces for byte-pair merging, by the regular expressions of a vocabulary.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/match_budget.h"

namespace trireme {

/// A PCRE2 regular expression over UTF-8, with Unicode character classes. Expressions of vocabularies pass
/// through pcre_of_onig() first. Invalid UTF-8 bytes match nothing.
class TextPattern {
 public:
  /// Throws Error(kInvalidInput) with the position of a syntax error, and for an expression that can match
  /// the empty text.
  explicit TextPattern(const std::string& expression);

  /// Calls visit(piece, is_match) for the matches and for the text between them; the pieces concatenate to
  /// `text`. Throws Error(kInvalidInput) when `budget` is used up ([Note: match budget]), for a match that
  /// does not advance, and for one that exceeds the memory limit of an expression.
  void split(std::string_view text, MatchBudget& budget,
             const std::function<void(std::string_view, bool)>& visit) const;

 private:
  std::string expression_;
  std::shared_ptr<const void> code_;
};

/// An expression that matches exactly `text`.
std::string literal_pattern(std::string_view text);

/// GPT-2's pieces: contractions, words and numbers with the space before them, signs, spaces. For
/// pcre_of_onig().
inline constexpr const char* kGpt2Pattern =
    R"('(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Calls visit(piece) for the final pieces: each pattern splits the pieces of the previous one. Recurses once
/// per pattern.
void pre_tokenize(const std::vector<TextPattern>& patterns, std::string_view text, MatchBudget& budget,
                  const std::function<void(std::string_view)>& visit);

}  // namespace trireme
