// Distinguishes a full or failing disk, which may recover, from an unusable path.
#pragma once

#include "runtime/base/error.h"

namespace trireme {

/// True for ENOSPC, EDQUOT, EIO and ESTALE: the same call may succeed later.
bool is_disk_failure(int error_number);

/// Error code for a file that cannot be created or opened: kRuntime for a disk failure, else kInvalidInput,
/// because another path would work.
ErrorCode code_of_file_failure(int error_number);

}  // namespace trireme
