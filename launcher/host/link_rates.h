// Latency and rate of exchanges between this job's ranks, in the form of a cluster file's link.
#pragma once

#include "launcher/host/device.h"

namespace trireme {

struct LinkRates {
  double latency_us = 0;  // per hop: an exchange of n ranks has log2(n) hops
  double gb_s = 0;        // received by each rank, with all ranks at once
};

/// Measures all-gathers and all-to-alls with few and with many bytes, each the fastest of several. Collective
/// over two or more ranks.
LinkRates measure_link(const RankDevice& rank);

}  // namespace trireme
