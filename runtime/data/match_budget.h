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

#include "runtime/base/error.h"

namespace trireme {

class MatchBudget {
 public:
  static constexpr std::uint32_t kStepsPerByte = 16;
  static constexpr std::size_t kMostCounted = 16;

  MatchBudget(std::size_t text_bytes, std::size_t num_patterns)
      : units_((std::uint64_t{1} << 22) +
               std::uint64_t{512} * text_bytes * (std::min(num_patterns, kMostCounted) + 1)) {}

  /// Throws Error(kInvalidInput) if fewer units are left.
  void spend(std::uint64_t units) {
    TRIREME_CHECK(units <= units_,
                  "its patterns take too long on a text: they look at each byte of it many times over");
    units_ -= units;
  }

 private:
  std::uint64_t units_;
};

}  // namespace trireme
