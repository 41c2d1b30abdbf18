// Finds the known name nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal
/// string alignment). Ignores case.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance to `name`; the first one on ties. Empty without candidates.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace trireme
