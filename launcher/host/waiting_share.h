// What ranks that wait cost those that compute, where they share cores.
#pragma once

#include "parallel/comm/communicator.h"

namespace trireme {

/// Ranks of one host, with more threads than it has cores.
struct SharingRanks {
  int threads = 1;  // of a rank
  int cores = 1;    // that all of them share
};

/// The share of a core that a rank takes while it waits, 0 to 1. In turns of milliseconds, as many ranks as
/// could have cores of their own compute, chosen at random, while the others wait for them in an exchange:
/// looks for messages take time, and the system may leave two that compute on one core for a while. What the
/// turns take over what they take unhindered is the share's measure ([Note: shared cores] in
/// parallel/foresee/plan_price.cc). Collective; about two seconds.
double measure_waiting_share(Communicator& comm, const SharingRanks& sharing);

}  // namespace trireme
