// Distinguishes a full or failing disk, which may recover, from an unusable path.
#pragma once

#include <string_view>

#include "runtime/base/error.h"

namespace trireme {

/// True for ENOSPC, EDQUOT, EIO and ESTALE: the same call may succeed later.
bool is_disk_failure(int error_number);

/// Error code for a file that cannot be created or opened: kRuntime for a disk failure, else kInvalidInput,
/// because another path would work.
ErrorCode code_of_file_failure(int error_number);

/// True if `message`, possibly from another process, contains the system's text for a disk failure.
bool names_disk_failure(std::string_view message);

}  // namespace trireme
