// The message of a watchdog about the ranks of its machine: who died in which action, who holds the others
// up.
#pragma once

#include <string>

#include "parallel/comm/rank_board.h"

namespace trireme {

/// "rank 2 (process 1234) died in step 17, action 5 (Forward unit 3 micro-batch 1) of block 'blocks.2'".
std::string describe_death(const RankReading& rank);

/// True where a signal, or a debugger, has stopped the process of another rank that can be seen.
bool is_any_stopped(const RankBoard& board);

/// Names the ranks that hold the job up: those that a signal has stopped and those that have not entered the
/// board, else those that wait for nobody, else none, as they are on another machine. Then a line for each
/// of the others, with what it waits for. `limit` is what was exceeded: "EngineOptions::timeout_s = 600".
/// `silent`: hosts that do not answer, which are named where all ranks of this machine wait.
std::string describe_stall(const RankBoard& board, const std::string& limit, const std::string& silent = "");

}  // namespace trireme
