// The memory of the RankBoard that the processes of one machine share, and with it their last word.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "parallel/comm/last_word.h"
#include "parallel/comm/rank_board.h"

namespace trireme {

/// What the ranks of a machine share.
struct SharedBoard {
  std::shared_ptr<RankBoard> board;  // null: there is none
  std::shared_ptr<LastWord> last_word;
};

/// The board of a job's ranks on this machine before MPI runs. `file` says where its memory is to be found:
/// the first of them writes it, in a folder that the launcher removes at the end of the job, however that
/// comes. None where the memory cannot be had, or another process has entered `slot`.
SharedBoard open_board(const std::string& file, int size, int slot);

/// That of a job which `process` is a rank of, for a process outside of the job that has the same build. None
/// where there is none, or not yet. `known` are boards that were found before, by their memory's number: one
/// of them is not opened again, and what is found is added.
SharedBoard find_board(int process, std::set<std::uint64_t>& known);

}  // namespace trireme
