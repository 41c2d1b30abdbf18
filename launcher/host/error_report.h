// The one form in which the program says what went wrong: "trireme: error: ..." on standard error.
#pragma once

#include <string_view>

namespace trireme {

/// `rank` >= 0 names the rank that speaks.
void report_error(std::string_view message, int rank = -1) noexcept;

}  // namespace trireme
