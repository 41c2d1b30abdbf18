// The standard library's errors about a path that cannot be read, in the program's words.
#pragma once

#include <filesystem>

#include "runtime/base/error.h"

namespace trireme {

/// "cannot use data/x: File name too long", with both paths where there are two: kInvalidInput where another
/// path would do, else kRuntime.
Error as_error(const std::filesystem::filesystem_error& error);

}  // namespace trireme
