// Whether the disk of an output folder has room for the next checkpoint.
#pragma once

#include <filesystem>

namespace trireme {

/// `checkpoints`: a run's folder of them. Throws Error(kRuntime) if less is free than the newest checkpoint
/// there takes. Hidden folders of dead writers count as free, as the next checkpoint removes them. Passes
/// where there is no checkpoint, or the file system does not say what is free. Quotas are not seen.
void check_room_for_checkpoint(const std::filesystem::path& checkpoints);

}  // namespace trireme
