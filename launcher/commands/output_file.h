// The file that an option of a command names, to be written at its end.
#pragma once

#include <string>

namespace trireme {

/// Throws Error(kInvalidInput) for a file that is there already, unless `force`.
void check_is_new(const char* option, const std::string& file, bool force = false);

/// Before what takes long is computed for it. Throws Error(kInvalidInput) that begins with the option.
void check_can_be_written(const char* option, const std::string& file);

}  // namespace trireme
