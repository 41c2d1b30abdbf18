// The cost of waiting ranks for computing ranks on shared cores.
#pragma once

#include "parallel/comm/communicator.h"

namespace trireme {

/// Ranks of one host with more threads than cores.
struct SharingRanks {
  int threads = 1;  // per rank
  int cores = 1;    // shared by all ranks
};

/// The share of a core that a waiting rank uses, 0 to 1. Measured in turns of milliseconds: randomly chosen
/// ranks, no more than the cores, compute while the others wait for them in an exchange. Polling for messages
/// takes time, and the system may run two computing ranks on one core for a while. The slowdown of the turns
/// gives the share ([Note: shared cores] in parallel/foresee/plan_price.cc). Collective; takes about two
/// seconds.
double measure_waiting_share(Communicator& comm, const SharingRanks& sharing);

}  // namespace trireme
