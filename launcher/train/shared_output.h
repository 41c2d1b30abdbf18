// Checks that all ranks see the same output folder.
#pragma once

#include <filesystem>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Collective, before the first step. All ranks write and read checkpoints. Throws AgreedError naming the
/// ranks and hosts that do not see rank 0's files in `root`.
void check_shared_output(Communicator& comm, const std::filesystem::path& root);

}  // namespace trireme
