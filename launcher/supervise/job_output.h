// Shows the output of a supervised job and of its supervisor.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace trireme {

/// Prints a message of the supervisor to standard error. Lines after the first are indented, so that a
/// newline in a name cannot begin a line that looks like another message.
void say(const std::string& text);
/// The printed text, with escapes ([Note: terminal text]).
std::string supervisor_message(const std::string& text);

/// Follows the file with an attempt's output.
class JobOutput {
 public:
  /// `take` is called with each whole line, without its newline; true hides the line.
  JobOutput(std::filesystem::path path, std::function<bool(std::string_view line)> take)
      : path_(std::move(path)), take_(std::move(take)) {}

  /// Prints new whole lines.
  void show();
  /// Prints new lines, including an unfinished last one.
  void show_rest();

 private:
  void show_line(std::string_view line) const;

  std::filesystem::path path_;
  std::function<bool(std::string_view)> take_;
  std::size_t read_ = 0;
  std::string unfinished_;
};

}  // namespace trireme
