#include "runtime/base/folder_bytes.h"

#include <system_error>

namespace trireme {

namespace fs = std::filesystem;

std::uintmax_t bytes_below(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    std::error_code gone;
    if (!fs::is_regular_file(file->symlink_status(gone))) continue;
    if (const std::uintmax_t size = file->file_size(gone); !gone) bytes += size;
  }
  return bytes;
}

}  // namespace trireme
