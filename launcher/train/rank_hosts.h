// Which rank runs on which host, for the supervisor of a job: it blames hosts, and errors name ranks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Collective. Rank 0 writes it where a supervisor looks after the output folder `root`.
void note_rank_hosts(Communicator& comm, const std::filesystem::path& root);

/// By rank, as hosts call themselves; empty where nothing was noted.
std::vector<std::string> read_rank_hosts(const std::filesystem::path& root);
/// Before an attempt, whose own may be others.
void forget_rank_hosts(const std::filesystem::path& root);

}  // namespace trireme
