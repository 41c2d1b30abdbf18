// The work that matching may take on one text, whatever the patterns of its vocabulary are.
//
// [Note: match budget] A vocabulary may come from a stranger, and an expression such as `[^b]*b|.` looks at
// all of a text from each of its bytes. A text has a budget in proportion to its bytes, shared by all
// patterns and all calls. A unit is a byte that a match may look at, and allows kStepsPerByte steps of
// backtracking. The expressions of known vocabularies take less than a tenth of it. Of many patterns
// kMostCounted count: so 100 KB take seconds at most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/base/error.h"

namespace trireme {

class MatchBudget {
 public:
  static constexpr std::uint32_t kStepsPerByte = 16;
  static constexpr std::size_t kMostCounted = 16;

  MatchBudget(std::size_t text_bytes, std::size_t num_patterns)
      : units_((std::uint64_t{1} << 22) +
               std::uint64_t{512} * text_bytes * (std::min(num_patterns, kMostCounted) + 1)) {}

  /// Throws Error(kInvalidInput) when less is left.
  void spend(std::uint64_t units) {
    TRIREME_CHECK(units <= units_,
                  "its patterns take too long on a text: they look at each byte of it many times over");
    units_ -= units;
  }

 private:
  std::uint64_t units_;
};

}  // namespace trireme
