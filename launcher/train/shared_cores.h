// Detects ranks that share cores, and how such ranks wait.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/comm/communicator.h"
#include "parallel/mesh/hosts.h"

namespace trireme {

/// The cores that a rank may use.
struct RankCores {
  int threads = 1;
  int allowed = 1;             // number of cores it is bound to, within its quota
  std::uint64_t affinity = 0;  // identifies the set of cores; ranks of a host with equal values share it
};

/// True if, on any host, ranks bound to the same cores have more threads in total than those cores. `ranks`
/// is by rank.
bool any_share_cores(const HostMap& hosts, std::span<const RankCores> ranks);

/// If any ranks share cores, all ranks of the job sleep while they wait; MPI requires the same kind of calls
/// on all of them. Collective. No MPI call may be in progress.
void sleep_where_cores_are_shared(Communicator& comm, int threads);

}  // namespace trireme
