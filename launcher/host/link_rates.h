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

}  // namespace trireme
