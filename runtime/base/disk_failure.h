// Distinguishes a disk that is full or fails, which may recover, from a path that cannot be used.
#pragma once

#include <string_view>

#include "runtime/base/error.h"

namespace trireme {

/// True of ENOSPC, EDQUOT, EIO and ESTALE: the same call may succeed later.
bool is_disk_failure(int error_number);

/// The code of a file that cannot be made or opened: kRuntime for a disk failure, else kInvalidInput, because
/// another path would do.
ErrorCode code_of_file_failure(int error_number);

/// True if the system's words for a disk failure occur in `message`, which may be another process's.
bool names_disk_failure(std::string_view message);

}  // namespace trireme
