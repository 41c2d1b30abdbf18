// The watchdog's messages about the ranks of its machine: the rank that died, with its action, and the ranks
// that block others.
#pragma once

#include <string>

#include "parallel/comm/rank_board.h"

namespace trireme {

/// "rank 2 (process 1234) died in step 17, action 5 (Forward unit 3 micro-batch 1) of block 'blocks.2'".
std::string describe_death(const RankReading& rank);

/// True if a signal or a debugger has stopped the visible process of another rank.
bool is_any_stopped(const RankBoard& board);

/// Names the ranks that block the job: first ranks that are stopped or have not entered the board, else ranks
/// that wait for nobody, else none, as they are on another machine. Then one line for each other rank, with
/// its wait. `limit` is the exceeded limit: "EngineOptions::timeout_s = 600". `silent`: hosts that do not
/// answer, reported if all ranks of this machine wait.
std::string describe_stall(const RankBoard& board, const std::string& limit, const std::string& silent = "");

}  // namespace trireme
