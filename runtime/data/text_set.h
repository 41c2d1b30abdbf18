// Longest-prefix matching in a set of texts: the added tokens of a vocabulary, possibly tens of thousands.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/match_budget.h"

namespace trireme {

/// Sorted texts, searched like a trie: each further byte narrows the range of candidates.
class TextSet {
 public:
  /// `texts` must not contain empty strings.
  explicit TextSet(std::vector<std::string> texts);

  /// Calls visit(piece, is_match) for the leftmost-longest matches and for the text between them; the pieces
  /// concatenate to `text`. Throws Error(kInvalidInput) when `budget` is used up.
  void split(std::string_view text, MatchBudget& budget,
             const std::function<void(std::string_view, bool)>& visit) const;

 private:
  std::size_t longest_at(std::string_view text, MatchBudget& budget) const;

  std::vector<std::string> texts_;
  std::array<std::size_t, 257> begins_{};  // index of the first text by first byte
};

}  // namespace trireme
