// The depth of nested text, found without recursion before a parser sees it.
//
// [Note: nesting] Parsers of JSON and TOML build trees, and walking, copying or destroying a tree recurses: a
// file of 100 kB that is nothing but brackets or dots ends the process where its stack ends. No file of ours
// needs more than a handful of levels, so deeper ones are refused before they are parsed.
#pragma once

#include <cstddef>
#include <string_view>

namespace trireme {

/// Of files that are read here; the deepest that is written has 5 levels.
inline constexpr int kMaxNesting = 32;

/// The most brackets and braces that are open at once, strings left out. Text that is not JSON gives a
/// number, too: up to its first error it is counted as the parser sees it.
int json_nesting(std::string_view text);

/// The values of all arrays and objects, as far as commas show them.
std::size_t json_items(std::string_view text);

/// The names of all objects, as far as colons show them.
std::size_t json_names(std::string_view text);

/// The larger of the most brackets and braces that are open at once, and the most dots in one key; strings
/// and comments left out.
int toml_nesting(std::string_view text);

}  // namespace trireme
