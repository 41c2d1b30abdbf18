// Checks for the output file of a command's option.
#pragma once

#include <string>

namespace trireme {

/// Throws Error(kInvalidInput) if the file exists, unless `force`.
void check_is_new(const char* option, const std::string& file, bool force = false);

/// Call before long computations. Throws Error(kInvalidInput), beginning with the option.
void check_can_be_written(const char* option, const std::string& file);

}  // namespace trireme
