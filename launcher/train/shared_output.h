// Whether all ranks see one output folder.
#pragma once

#include <filesystem>

#include "launcher/config/config.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// Collective, before the first step. A checkpoint in the background is written by all ranks, and any
/// checkpoint is read by all of them when the job goes on: throws AgreedError naming the ranks and hosts that
/// do not see what rank 0 writes into the folder `root`.
void check_shared_output(Communicator& comm, const std::filesystem::path& root,
                         const CheckpointSection& section);

}  // namespace trireme
