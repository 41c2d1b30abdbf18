#include "runtime/base/terminal_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace trireme {
namespace {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  // 0: invalid UTF-8
};

/// The first code point of a non-empty text. Overlong forms, surrogates and values above U+10FFFF are
/// invalid.
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {.value = lead, .bytes = 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t value = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kLeast[bytes] || value > 0x10FFFF || is_surrogate) return {};
  return {.value = value, .bytes = bytes};
}

bool is_shown(char32_t c) {
  if (c < 0x20) return c == '\t' || c == '\n';
  const bool is_control = c >= 0x7F && c < 0xA0;
  const bool is_direction = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
                            (c >= 0x2066 && c <= 0x2069);
  const bool is_line_end = c == 0x2028 || c == 0x2029;
  return !is_control && !is_direction && !is_line_end;
}

}  // namespace

std::string terminal_line(std::string_view text) {
  std::string line;
  for (const char c : terminal_text(text)) {
    if (c == '\n' || c == '\t') {
      line += c == '\n' ? "\\n" : "\\t";
    } else {
      line += c;
    }
  }
  return line;
}

std::string terminal_text(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    const std::size_t bytes = std::max<std::size_t>(c.bytes, 1);
    if (c.bytes > 0 && is_shown(c.value)) {
      shown += text.substr(0, bytes);
    } else if (c.bytes == 0 || c.value < 0x20) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else {
      fmt::format_to(std::back_inserter(shown), "\\u{:04x}", static_cast<unsigned>(c.value));
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace trireme
