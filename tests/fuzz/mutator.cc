#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace trireme::fuzz {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;

// Values at the limits of types, shifts and sizes.
constexpr std::array<std::uint64_t, 14> kNumbers = {
    0,    1, 2, 127, 128, 255, 256, 32767, 65535, 0x7FFFFFFF, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF,
    ~0ull};

constexpr std::array<std::string_view, 22> kDecimals = {"0",
                                                        "-1",
                                                        "1",
                                                        "65536",
                                                        "2147483648",
                                                        "4294967296",
                                                        "9223372036854775807",
                                                        "9223372036854775808",
                                                        "1e400",
                                                        "-0.0",
                                                        "1e-45",
                                                        "nan",
                                                        "inf",
                                                        "0x10",
                                                        "1.5",
                                                        "18446744073709551615",
                                                        "true",
                                                        "null",
                                                        "\"\"",
                                                        "\"\\u0000\"",
                                                        "{}",
                                                        "[]"};

// The tokens of the grammars.
constexpr std::array<std::string_view, 26> kWords = {"{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     ",",
                                                     ":",
                                                     "=",
                                                     ".",
                                                     "\"",
                                                     "'",
                                                     "\"\"\"",
                                                     "'''",
                                                     "#",
                                                     "\n",
                                                     "\\",
                                                     "\0",
                                                     "a.",
                                                     "{\"a\":",
                                                     "[[",
                                                     "[a]\n",
                                                     "\xFF",
                                                     "\xEF\xBB\xBF",
                                                     "__metadata__",
                                                     "\xFF\xD8",
                                                     "\xFF\xDA",
                                                     "IDAT"};

}  // namespace

std::string Mutator::next() {
  std::string text = seeds_[below(seeds_.size())];
  const std::size_t num_changes = 1 + below(one_in(4) ? 16 : 3);
  for (std::size_t i = 0; i < num_changes; ++i) change(text);
  if (text.size() > kMaxBytes) text.resize(kMaxBytes);
  return text;
}

void Mutator::change(std::string& text) {
  // Damage to the format hides everything after it.
  if (change_format_ != nullptr && !one_in(4)) return change_format_(text, random_);
  if (one_in(50)) return repeat(text);
  switch (below(5)) {
    case 0:
    case 1:
      return change_bytes(text);
    case 2:
      return change_length(text);
    case 3:
      return put_number(text);
    default:
      return put_word(text);
  }
}

void Mutator::change_bytes(std::string& text) {
  if (text.empty()) return;
  char& byte = text[below(text.size())];
  if (one_in(2)) {
    byte = static_cast<char>(byte ^ 1 << below(8));
  } else {
    byte = static_cast<char>(below(256));
  }
}

/// Removes or doubles a part, inserts a part of another seed, or truncates.
void Mutator::change_length(std::string& text) {
  const std::size_t at = below(text.size() + 1);
  const std::size_t count = below(std::min<std::size_t>(text.size() - at, one_in(4) ? kMaxBytes : 16) + 1);
  const std::string& other = seeds_[below(seeds_.size())];
  switch (below(4)) {
    case 0:
      text.erase(at, count);
      break;
    case 1:
      text.insert(below(text.size() + 1), text.substr(at, count));
      break;
    case 2:
      text.insert(at, other.substr(below(other.size()), below(64)));
      break;
    default:
      if (one_in(4)) text.resize(at);
  }
}

/// Writes a number of 1 to 8 bytes in either byte order, or replaces a decimal number.
void Mutator::put_number(std::string& text) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const std::size_t from = below(text.size());
  if (one_in(2)) {
    const auto first = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), is_digit);
    const auto last = std::find_if_not(first, text.end(), is_digit);
    text.replace(first, last, kDecimals[below(kDecimals.size())]);
    return;
  }
  const std::uint64_t number = kNumbers[below(kNumbers.size())];
  const std::size_t num_bytes = std::size_t{1} << below(4);
  const bool big_endian = one_in(2);
  for (std::size_t i = 0; i < num_bytes && from + i < text.size(); ++i) {
    const std::size_t shift = 8 * (big_endian ? num_bytes - 1 - i : i);
    text[from + i] = static_cast<char>(number >> shift & 0xFF);
  }
}

void Mutator::put_word(std::string& text) {
  const std::string_view word = kWords[below(kWords.size())];
  const std::size_t at = below(text.size() + 1);
  text.replace(at, one_in(2) ? 0 : std::min(word.size(), text.size() - at), word);
}

/// Repeats a word or a part of the text many times: nesting, and anything that grows with a count.
void Mutator::repeat(std::string& text) {
  const std::size_t at = below(text.size() + 1);
  const std::string part =
      one_in(2) ? std::string(kWords[below(kWords.size())]) : text.substr(at, 1 + below(32));
  const std::size_t count = std::size_t{1} << below(17);
  std::string many;
  for (std::size_t i = 0; i < count && many.size() < kMaxBytes; ++i) many += part;
  text.insert(at, many);
}

}  // namespace trireme::fuzz
