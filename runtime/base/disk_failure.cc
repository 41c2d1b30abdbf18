#include "runtime/base/disk_failure.h"

#include <algorithm>
#include <cerrno>

namespace trireme {
namespace {

constexpr int kDiskFailures[] = {ENOSPC, EDQUOT, EIO, ESTALE};

}  // namespace

bool is_disk_failure(int error_number) {
  return std::ranges::find(kDiskFailures, error_number) != std::end(kDiskFailures);
}

ErrorCode code_of_file_failure(int error_number) {
  return is_disk_failure(error_number) ? ErrorCode::kRuntime : ErrorCode::kInvalidInput;
}

}  // namespace trireme
