// A limit on the matching work for one text, for any patterns of a vocabulary.
//
// [Note: match budget] A vocabulary may come from an untrusted source, and an expression such as `[^b]*b|.`
// scans the whole text from each of its bytes. A text has a budget proportional to its bytes, shared by all
// patterns and all calls. A unit is a byte that a match may scan, and allows kStepsPerByte steps of
// backtracking. The expressions of known vocabularies use less than a tenth of it. At most kMostCounted
// patterns increase the budget, so 100 KB take seconds at most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {

class MatchBudget {
 public:
  static constexpr std::uint32_t kStepsPerByte = 16;
  static constexpr std::size_t kMostCounted = 16;

  MatchBudget(std::string_view text, std::size_t num_patterns)
      : text_(text),
        units_((std::uint64_t{1} << 22) +
               std::uint64_t{512} * text.size() * (std::min(num_patterns, kMostCounted) + 1)) {}

  /// Spends `units` on a match in `rest`, a part of the text. Throws Error(kInvalidInput), naming the byte,
  /// if fewer are left.
  void spend(std::uint64_t units, std::string_view rest) {
    TRIREME_CHECK(units <= units_,
                  "its patterns take too long at byte {} of the text: they look at each byte many times over",
                  offset_of(rest));
    units_ -= units;
  }

  /// The byte at which `rest`, a part of the text, begins.
  std::size_t offset_of(std::string_view rest) const {
    return static_cast<std::size_t>(rest.data() - text_.data());
  }

 private:
  std::string_view text_;
  std::uint64_t units_;
};

}  // namespace trireme
