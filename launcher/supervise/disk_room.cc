#include "launcher/supervise/disk_room.h"

#include <cstdint>
#include <string>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/folder_bytes.h"

namespace trireme {

namespace fs = std::filesystem;

void check_room_for_checkpoint(const fs::path& checkpoints) {
  std::error_code error;
  fs::path newest;
  std::uintmax_t remains = 0;
  for (fs::directory_iterator entry(checkpoints, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".tmp-")) remains += bytes_below(entry->path());
    if (name.starts_with("step-") && entry->path() > newest) newest = entry->path();
  }
  if (newest.empty()) return;
  const fs::space_info space = fs::space(checkpoints, error);
  if (error) return;
  const std::uintmax_t needed = bytes_below(newest);
  if (space.available + remains < needed)
    throw Error(ErrorCode::kRuntime, "the disk of {} has {} bytes free, and a checkpoint takes {}",
                checkpoints.string(), space.available, needed);
}

}  // namespace trireme
