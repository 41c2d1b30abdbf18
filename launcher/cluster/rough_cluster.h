// A rough cluster description of an unmeasured machine: two rates, and typical links.
#pragma once

#include "launcher/cluster/measure_cluster.h"

namespace trireme {

/// Adds the rates of one large product of each kind and of one copy, each measured for about `ms`. Measured
/// curves continue with these rates beyond the measured sizes.
void add_rates(const MeasuredRank& rank, double ms, ClusterDevice& device);

/// Name of such a cluster in place of a file name.
inline constexpr const char* kRoughCluster = "this machine, roughly";

struct RoughRanks {
  int of_host = 1;  // ranks on each host of the job
  int at_once = 1;  // ranks that measure at the same time
};

/// Measures two rates, within half a second on a CPU. Assumes links of 4 GB/s and 5 us within a host, 20 GB/s
/// between its GPUs, and 1.2 GB/s and 50 us between hosts. Good enough to rank layouts, not to predict their
/// times.
Cluster rough_cluster(const MeasuredRank& rank, const RoughRanks& ranks);

/// The same with assumed rates, enough to decide what fits.
Cluster assumed_cluster(const MeasuredRank& rank, int ranks_of_host);

}  // namespace trireme
