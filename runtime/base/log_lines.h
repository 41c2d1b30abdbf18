// A report of several lines in the log.
#pragma once

#include <string_view>

namespace trireme {

/// As log_error(), but a newline begins a line. No name of a file, tensor or key may be in `lines` without
/// terminal_line() ([Note: terminal text]).
void log_error_lines(std::string_view lines) noexcept;

}  // namespace trireme
