#include "runtime/base/nesting.h"

#include <algorithm>
#include <cstddef>

namespace trireme {
namespace {

/// The position after the string that begins at `begin`, closed by its opening quote character.
std::size_t skip_json_string(std::string_view text, std::size_t begin) {
  for (std::size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

std::size_t count_outside_strings(std::string_view text, char wanted) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      i = skip_json_string(text, i);
    } else {
      count += text[i++] == wanted ? 1 : 0;
    }
  }
  return count;
}

/// The position after a TOML string: "basic", 'literal', or either in triple quotes over several lines.
std::size_t skip_toml_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const auto quotes_at = [&](std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && text[end] == quote) ++end;
    return end - at;
  };
  const bool several_lines = quotes_at(begin) >= 3;
  for (std::size_t i = begin + (several_lines ? 3 : 1); i < text.size();) {
    if (quote == '"' && text[i] == '\\') {
      i += 2;
    } else if (text[i] == quote) {
      const std::size_t count = quotes_at(i);
      if (!several_lines) return i + 1;
      i += std::min<std::size_t>(count, 5);  // up to two quotes belong to the text
      if (count >= 3) return i;
    } else if (text[i] == '\n' && !several_lines) {
      return i;  // an error that the parser will report
    } else {
      ++i;
    }
  }
  return text.size();
}

/// Counts the maximum number of brackets and braces open at once.
class Brackets {
 public:
  void see(char c) {
    if (c == '[' || c == '{') most_ = std::max(most_, ++open_);
    if ((c == ']' || c == '}') && open_ > 0) --open_;
  }
  int most() const { return most_; }

 private:
  int open_ = 0, most_ = 0;
};

}  // namespace

int json_nesting(std::string_view text) {
  Brackets brackets;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      i = skip_json_string(text, i);
    } else {
      brackets.see(text[i++]);
    }
  }
  return brackets.most();
}

std::size_t json_items(std::string_view text) {
  return 1 + count_outside_strings(text, ',');
}

std::size_t json_names(std::string_view text) {
  return count_outside_strings(text, ':');
}

int toml_nesting(std::string_view text) {
  Brackets brackets;
  int dots = 0, most_dots = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = skip_toml_string(text, i);
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    brackets.see(c);
    // A key ends at any of these characters. A number between them has at most one dot.
    if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots = 0;
    if (c == '.') most_dots = std::max(most_dots, ++dots);
    ++i;
  }
  return std::max(brackets.most(), most_dots);
}

}  // namespace trireme
