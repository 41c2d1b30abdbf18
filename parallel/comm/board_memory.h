// The shared memory of one machine's RankBoard.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "parallel/comm/rank_board.h"

namespace trireme {

/// Opens the board of a job's ranks on this machine before MPI runs. The first rank writes the location of
/// the memory to `file`, in a folder that the launcher removes at any end of the job. Null if the memory is
/// unavailable, or another process has taken `slot`.
std::shared_ptr<RankBoard> open_board(const std::string& file, int size, int slot);

/// Finds the board of a job by one of its ranks, `process`. For processes outside the job with the same
/// build. Null if there is no board yet. `known` holds boards found before, by the inode of their memory; a
/// known board is not opened again, and a new one is added.
std::shared_ptr<RankBoard> find_board(int process, std::set<std::uint64_t>& known);

}  // namespace trireme
