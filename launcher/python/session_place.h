// The place of a session's ranks: threads of this process, or this process as one rank of a job of MPI.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "launcher/python/mpi_ranks.h"
#include "launcher/python/rank_team.h"
#include "launcher/train/settled_run.h"

namespace trireme {

struct SessionPlace {
  int num_ranks = 1;                        // threads of this process
  std::shared_ptr<MpiRanks> mpi = nullptr;  // in place of num_ranks

  /// One for each rank of this process. Collective under MPI. `timeout_s`: parallel.timeout_s.
  std::vector<std::shared_ptr<Communicator>> communicators(double timeout_s) const;
  RunPlace of(const std::shared_ptr<Communicator>& comm) const;
  RankTeam::FirstRank first_rank() const;
  /// See RankTeam. `threads` of a rank; 0: their share of the cores.
  std::chrono::microseconds spin_time(std::int64_t threads) const;
};

}  // namespace trireme
