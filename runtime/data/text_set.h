// A set of texts, and the longest of them that begins at a place: the added tokens of a vocabulary, of which
// there may be tens of thousands.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/match_budget.h"

namespace trireme {

/// Sorted texts, searched as the trie that they are: each further byte narrows the range of those that fit.
class TextSet {
 public:
  /// `texts` are not empty.
  explicit TextSet(std::vector<std::string> texts);

  /// Calls visit(piece, is_match) for the matches, leftmost first and longest of those, and for what lies
  /// between them; together they are `text`. Throws Error(kInvalidInput) when `budget` is used up.
  void split(std::string_view text, MatchBudget& budget,
             const std::function<void(std::string_view, bool)>& visit) const;

 private:
  std::size_t longest_at(std::string_view text, MatchBudget& budget) const;

  std::vector<std::string> texts_;
  std::array<std::size_t, 257> begins_{};  // of the texts by their first byte
};

}  // namespace trireme
