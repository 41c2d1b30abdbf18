// Whether all ranks write into one folder.
#pragma once

#include <filesystem>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Collective. Throws AgreedError naming the ranks that do not see what rank 0 writes into the folder.
void check_shared_output(Communicator& comm, const std::filesystem::path& root);

}  // namespace trireme
