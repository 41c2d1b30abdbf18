// What ranks that wait cost those that compute, where they share cores.
#pragma once

#include "parallel/comm/communicator.h"

namespace trireme {

/// Ranks of one host, with more threads than it has cores.
struct SharingRanks {
  int threads = 1;  // of a rank
  int cores = 1;    // that all of them share
};

/// The share of a core that a rank takes while it waits for a message, 0 to 1: as many ranks as have cores of
/// their own compute for a while, once while the others sleep and once while they wait; the median of several
/// times. See [Note: shared cores] in parallel/foresee/plan_price.cc. Collective; about two seconds.
double measure_waiting_share(Communicator& comm, const SharingRanks& sharing);

}  // namespace trireme
