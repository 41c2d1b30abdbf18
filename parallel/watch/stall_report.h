// The errors with which a watchdog ends a job: a rank of its machine died, or holds the others up.
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

/// True where a signal, or a debugger, has stopped the process of another rank that can be seen.
bool is_any_stopped(const RankBoard& board);

/// Names the ranks that hold the job up: those that a signal has stopped and those that have not entered the
/// board, else those that wait for nobody, else none, as they are on another machine. Then a line for each
/// of the others, with what it waits for. `limit` is the value of EngineOptions::timeout_s that was exceeded
/// and `note` is added to it: ", its default".
///
/// The facts name the first of these ranks, with its action. Where all ranks of this machine wait, they have
/// the address of the first of the `silent` hosts and no rank.
Error stall_of(const RankBoard& board, const std::string& limit, const std::string& note,
               const std::vector<SilentPeer>& silent = {});

}  // namespace trireme
