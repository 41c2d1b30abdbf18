#include "launcher/supervise/job_output.h"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "launcher/host/standard_output.h"
#include "runtime/base/terminal_text.h"

namespace trireme {

std::string supervisor_message(const std::string& text) {
  std::string message;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_first = message.empty();
    message += is_first ? "trireme run: " : line.starts_with("  ") ? "" : "  ";
    message += terminal_line(line) + "\n";
  }
  return message;
}

void say(const std::string& text) {
  fmt::print(stderr, "{}", supervisor_message(text));
}

void JobOutput::show_line(std::string_view line) const {
  if (take_(line)) return;
  print_text(line);
  print_line("");
}

void JobOutput::show() {
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(read_));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  read_ += text.size();
  unfinished_ += text;
  std::size_t begin = 0;
  for (std::size_t end; (end = unfinished_.find('\n', begin)) != std::string::npos; begin = end + 1)
    show_line(std::string_view(unfinished_).substr(begin, end - begin));
  unfinished_.erase(0, begin);
  flush_output();
}

void JobOutput::show_rest() {
  show();
  if (unfinished_.empty()) return;
  show_line(unfinished_);
  unfinished_.clear();
  flush_output();
}

}  // namespace trireme
