#include "runtime/data/text_set.h"

#include <algorithm>

namespace trireme {

TextSet::TextSet(std::vector<std::string> texts) : texts_(std::move(texts)) {
  std::ranges::sort(texts_);  // as unsigned bytes
  for (const std::string& text : texts_) ++begins_[static_cast<unsigned char>(text[0]) + std::size_t{1}];
  for (std::size_t byte = 1; byte < begins_.size(); ++byte) begins_[byte] += begins_[byte - 1];
}

/// The number of bytes of the longest text that is a prefix of `text`; 0: none.
std::size_t TextSet::longest_at(std::string_view text, MatchBudget& budget) const {
  const auto at = [](const std::string& known, std::size_t depth) {  // -1: it ends there
    return depth < known.size() ? int{static_cast<unsigned char>(known[depth])} : -1;
  };
  const auto first = static_cast<unsigned char>(text[0]);
  auto begin = texts_.begin() + static_cast<std::ptrdiff_t>(begins_[first]);
  auto end = texts_.begin() + static_cast<std::ptrdiff_t>(begins_[first + std::size_t{1}]);
  std::size_t longest = 0, depth = 1;
  for (; begin != end; ++depth) {
    if (begin->size() == depth) longest = depth;  // the shortest comes first
    if (depth == text.size()) break;
    const int byte = static_cast<unsigned char>(text[depth]);
    begin = std::lower_bound(begin, end, byte,
                             [&](const std::string& known, int b) { return at(known, depth) < b; });
    end = std::upper_bound(begin, end, byte,
                           [&](int b, const std::string& known) { return b < at(known, depth); });
  }
  budget.spend(depth, text);
  return longest;
}

void TextSet::split(std::string_view text, MatchBudget& budget,
                    const std::function<void(std::string_view, bool)>& visit) const {
  std::size_t done = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t size = longest_at(text.substr(from), budget);
    if (size == 0) {
      ++from;
      continue;
    }
    if (from > done) visit(text.substr(done, from - done), false);
    visit(text.substr(from, size), true);
    done = from += size;
  }
  if (done < text.size()) visit(text.substr(done), false);
}

}  // namespace trireme
