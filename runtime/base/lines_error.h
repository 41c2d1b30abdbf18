// An error whose message has several lines on purpose ([Note: terminal text]).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {

class LinesError : public Error {
 public:
  /// A newline within one of the lines becomes an escape.
  LinesError(ErrorCode code, const std::vector<std::string>& lines,
             std::source_location where = std::source_location::current());
};

/// The message in one line, "a; b".
std::string one_line(const Error& error);

/// The lines of a text, without the last one if it is empty.
std::vector<std::string> split_lines(std::string_view text);

/// The message as a terminal may show it: in one line unless Error::has_lines().
std::string shown_message(const std::exception& error);

}  // namespace trireme
