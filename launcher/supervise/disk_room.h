// Checks that the disk of an output folder has room for the next checkpoint.
#pragma once

#include <filesystem>

namespace trireme {

/// `checkpoints`: the run's checkpoint folder. Throws Error(kRuntime) if the free space is smaller than the
/// newest checkpoint. Hidden folders of dead writers count as free, because the next checkpoint removes them.
/// Passes if there is no checkpoint, or the file system does not report its free space. Quotas are not
/// checked.
void check_room_for_checkpoint(const std::filesystem::path& checkpoints);

}  // namespace trireme
