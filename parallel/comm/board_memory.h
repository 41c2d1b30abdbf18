// The memory of the RankBoard that the processes of one machine share.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "parallel/comm/rank_board.h"

namespace trireme {

/// The board of a job's ranks on this machine before MPI runs. `file` says where its memory is to be found:
/// the first of them writes it, in a folder that the launcher removes at the end of the job, however that
/// comes. Null where the memory cannot be had, or another process has entered `slot`.
std::shared_ptr<RankBoard> open_board(const std::string& file, int size, int slot);

/// That of a job which `process` is a rank of, for a process outside of the job that has the same build. Null
/// where there is none, or not yet. `known` are boards that were found before, by their memory's number: one
/// of them is not opened again, and what is found is added.
std::shared_ptr<RankBoard> find_board(int process, std::set<std::uint64_t>& known);

}  // namespace trireme
