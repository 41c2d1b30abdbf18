#include "runtime/base/lines_error.h"

#include <algorithm>

#include "runtime/base/terminal_text.h"

namespace trireme {
namespace {

std::string join(const std::vector<std::string>& lines, std::string_view between) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += between;
    text += terminal_line(line);
  }
  return text;
}

}  // namespace

LinesError::LinesError(ErrorCode code, const std::vector<std::string>& lines, std::source_location where)
    : Error(code, join(lines, "\n"), where) {
  has_lines_ = true;
}

std::string one_line(const Error& error) {
  return join(split_lines(error.what()), "; ");
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string shown_message(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr && ours->has_lines() ? terminal_text(error.what()) : terminal_line(error.what());
}

}  // namespace trireme
