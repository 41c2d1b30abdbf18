// Ranks that share cores, and how they wait.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/comm/communicator.h"
#include "parallel/mesh/hosts.h"

namespace trireme {

/// What a rank may use of its machine.
struct RankCores {
  int threads = 1;
  int allowed = 1;             // cores, of those that it is bound to, within its quota
  std::uint64_t affinity = 0;  // which they are: ranks of one host with the same number share them
};

/// True if ranks of some host that are bound to the same cores have more threads together than these. By
/// rank.
bool any_share_cores(const HostMap& hosts, std::span<const RankCores> ranks);

/// Where ranks share cores, all ranks of the job sleep while they wait: MPI wants the calls of all of them to
/// be of one kind. Collective, between calls of which none is under way.
void sleep_where_cores_are_shared(Communicator& comm, int threads);

}  // namespace trireme
