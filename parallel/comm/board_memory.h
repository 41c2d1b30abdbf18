// The shared memory of one machine's RankBoard and LastWord.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "parallel/comm/last_word.h"
#include "parallel/comm/rank_board.h"

namespace trireme {

/// Shared by the ranks of a machine.
struct SharedBoard {
  std::shared_ptr<RankBoard> board;  // null: no board
  std::shared_ptr<LastWord> last_word;
};

/// Opens the board of a job's ranks on this machine before MPI runs. The first rank writes the location of
/// the memory to `file`, in a folder that the launcher removes at any end of the job. Empty if the memory is
/// unavailable, or another process has taken `slot`.
SharedBoard open_board(const std::string& file, int size, int slot);

/// Finds the board of a job by one of its ranks, `process`. For processes outside the job with the same
/// build. Empty if there is no board yet. `known` holds boards found before, by the inode of their memory; a
/// known board is not opened again, and a new one is added.
SharedBoard find_board(int process, std::set<std::uint64_t>& known);

}  // namespace trireme
