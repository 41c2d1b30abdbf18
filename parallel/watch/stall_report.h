// The errors with which a watchdog ends a job: a rank of its machine died, or blocks the others.
#pragma once

#include <string>
#include <vector>

#include "parallel/comm/rank_board.h"
#include "parallel/watch/silent_peers.h"
#include "runtime/base/error.h"

namespace trireme {

/// "rank 2 (process 1234) died in step 17, action 5 (Forward unit 3 micro-batch 1) of block 'blocks.2'", with
/// rank and action.
Error death_of(const RankReading& rank);

/// True if a signal or a debugger has stopped the visible process of another rank.
bool is_any_stopped(const RankBoard& board);

/// Names the ranks that block the job: first ranks that are stopped or have not entered the board, else ranks
/// that wait for nobody, else none, as they are on another machine. Then one line for each other rank, with
/// its wait. `limit` is the exceeded value of EngineOptions::timeout_s; `note` is appended to it: ", its
/// default".
///
/// The facts name the first of these ranks, with its action. If all ranks of this machine wait, the facts
/// have the address of the first of the `silent` hosts, and no rank.
Error stall_of(const RankBoard& board, const std::string& limit, const std::string& note,
               const std::vector<SilentPeer>& silent = {});

}  // namespace trireme
