// Distinguishes a disk that is full or fails, which may recover, from a path that cannot be used.
#pragma once

#include "runtime/base/error.h"

namespace trireme {

/// True of ENOSPC, EDQUOT, EIO and ESTALE: the same call may succeed later.
bool is_disk_failure(int error_number);

/// The code of a file that cannot be made or opened: kRuntime for a disk failure, else kInvalidInput, because
/// another path would do.
ErrorCode code_of_file_failure(int error_number);

}  // namespace trireme
