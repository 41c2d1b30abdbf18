// The program's error messages: "trireme: error: ..." on standard error.
#pragma once

#include <exception>

#include "runtime/base/error.h"

namespace trireme {

/// `rank` >= 0 names the reporting rank. The message is printed as one line unless Error::has_lines().
void report_error(const std::exception& error, int rank = -1) noexcept;

/// Converts any exception to an Error. A standard-library error about a path becomes "cannot use data/x: File
/// name too long", with both paths if there are two: kInvalidInput if another path would help, else kRuntime.
Error as_error(const std::exception& failure);

}  // namespace trireme
