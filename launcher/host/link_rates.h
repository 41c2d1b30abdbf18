// Latency and rate of exchanges between the ranks of this job, as a cluster file describes a link.
#pragma once

#include "launcher/host/device.h"

namespace trireme {

struct LinkRates {
  double latency_us = 0;  // a hop: an exchange of n ranks takes log2(n) of them
  double gb_s = 0;        // of what enters a rank, all ranks at once
};

/// From all-gathers and all-to-alls of few and of many bytes, the fastest of several each. Collective over
/// two or more ranks.
LinkRates measure_link(const RankDevice& rank);

/// The share of a core that a rank takes from others while it waits for them, where ranks share `cores`: as
/// many ranks as have cores compute, the others sleep, or wait in a barrier. Collective; 0 where none is
/// left.
double measure_waiting_share(const RankDevice& rank, int threads, int cores);

}  // namespace trireme
