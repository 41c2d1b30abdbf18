// Sets of characters as Hugging Face's tokenizers has them (Unicode 16), as the content of a set of PCRE2,
// whose tables may be older: Unicode 14 in many distributions.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// Unicode's White_Space.
inline constexpr std::string_view kSpaceSet =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// A general category, "Lu", or a group of them, "L".
std::string category_set(std::string_view name);

/// The script.
std::string han_set();

/// Letters, marks, decimal and letter numbers, connectors, letters in circles and squares; and fractions and
/// small numbers of Latin-1, which Oniguruma's `\w` has outside of a set and lacks within one.
std::string word_set(bool in_set);

}  // namespace trireme
