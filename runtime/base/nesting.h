// The nesting depth of a text, computed without recursion before it is parsed.
//
// [Note: nesting] Parsers of JSON and TOML build trees, and walking, copying or destroying a tree recurses. A
// file of 100 kB of brackets or dots overflows the stack and ends the process. Our files need only a few
// levels, so deeper ones are rejected before they are parsed.
#pragma once

#include <cstddef>
#include <string_view>

namespace trireme {

/// Limit for files read here; the deepest file written here has 5 levels.
inline constexpr int kMaxNesting = 32;

/// The maximum number of brackets and braces open at once, outside strings. In invalid JSON the count is the
/// parser's up to the first error.
int json_nesting(std::string_view text);

/// The number of values in all arrays and objects, estimated from commas.
std::size_t json_items(std::string_view text);

/// The number of names in all objects, estimated from colons.
std::size_t json_names(std::string_view text);

/// The larger of two maxima: brackets and braces open at once, and dots in one key. Strings and comments are
/// skipped.
int toml_nesting(std::string_view text);

}  // namespace trireme
