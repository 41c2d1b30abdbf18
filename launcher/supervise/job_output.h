// The output of a supervised job and of its supervisor.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace trireme {

/// Shows a line of the supervisor on standard error.
void say(const std::string& text);

/// Follows the file of an attempt's output.
class JobOutput {
 public:
  /// `take`: returns true for a line that people need not see; gets each whole line, without its break.
  JobOutput(std::filesystem::path path, std::function<bool(std::string_view line)> take)
      : path_(std::move(path)), take_(std::move(take)) {}

  /// Shows the whole lines that are new.
  void show();
  /// Shows them, and an unfinished last line.
  void show_rest();

 private:
  void show_line(std::string_view line) const;

  std::filesystem::path path_;
  std::function<bool(std::string_view)> take_;
  std::size_t read_ = 0;
  std::string unfinished_;
};

}  // namespace trireme
