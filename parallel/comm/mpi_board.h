// The RankBoard of the processes of one machine.
#pragma once

#include <mpi.h>

#include <memory>

#include "parallel/comm/rank_board.h"

namespace trireme {

/// Collective over `node`. True on all of its ranks when each has a status, all on one board of their own.
bool is_common_board(MPI_Comm node, const RankStatus* status);

/// Collective over `node`, the ranks that share this one's memory. This rank's line on their common board;
/// where they cannot share memory (no /dev/shm), on one of its own. `rank` is the rank in the job.
std::shared_ptr<RankStatus> join_board(MPI_Comm node, int rank);

}  // namespace trireme
