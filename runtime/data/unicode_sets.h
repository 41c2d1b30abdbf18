// Character sets of Hugging Face's tokenizers (Unicode 16), as the content of PCRE2 sets. PCRE2's own tables
// may be older: Unicode 14 in many distributions.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// Unicode's White_Space.
inline constexpr std::string_view kSpaceSet =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// A general category such as "Lu", or a group such as "L".
std::string category_set(std::string_view name);

/// The Han script.
std::string han_set();

/// Letters, marks, decimal and letter numbers, connectors, letters in circles and squares. Also fractions and
/// small numbers of Latin-1, which Oniguruma's `\w` includes outside a set and excludes within one.
std::string word_set(bool in_set);

}  // namespace trireme
