// The known name that a mistyped one most likely meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment). Upper and lower case count as equal.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate with the least edit distance to `name`, the first of equals. Empty without candidates.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace trireme
