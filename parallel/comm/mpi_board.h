// The RankBoard of the processes of one machine.
#pragma once

#include <mpi.h>

#include <memory>

#include "parallel/comm/rank_board.h"

namespace trireme {

/// Collective over `node`. True on all ranks if each has a status and all are on one common board.
bool is_common_board(MPI_Comm node, const RankStatus* status);

/// Collective over `node`, the ranks that share memory. Returns this rank's line on their common board, or on
/// a private board if they cannot share memory (no /dev/shm). `rank` is the rank in the job.
std::shared_ptr<RankStatus> join_board(MPI_Comm node, int rank);

}  // namespace trireme
