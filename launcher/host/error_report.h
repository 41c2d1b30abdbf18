// The one form in which the program says what went wrong: "trireme: error: ..." on standard error.
#pragma once

#include <exception>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {

/// Begins every such line.
inline constexpr std::string_view kErrorPrefix = "trireme: error: ";

/// `rank` >= 0 names the rank that speaks. The message is shown in one line unless Error::has_lines().
void report_error(const std::exception& error, int rank = -1) noexcept;

/// Any exception as an Error. One of the standard library about a path becomes "cannot use data/x: File name
/// too long", with both paths where there are two: kInvalidInput where another path would do, else kRuntime.
Error as_error(const std::exception& failure);

}  // namespace trireme
