// This machine as a cluster, where nobody has measured it: by two rates, and links as they commonly are.
#pragma once

#include "launcher/cluster/measure_cluster.h"

namespace trireme {

/// Adds the rates of one large product of each kind and of one copy, each measured for about `ms`: what
/// measured curves go on from beyond the sizes that were measured.
void add_rates(const MeasuredRank& rank, double ms, ClusterDevice& device);

/// Name of such a cluster, in place of a file's.
inline constexpr const char* kRoughCluster = "this machine, roughly";

struct RoughRanks {
  int of_host = 1;  // ranks of one of the job's hosts
  int at_once = 1;  // of them that measure at the same time
};

/// Two rates, measured within half a second on a CPU; links of 4 GB/s and 5 us within a host, of 20 GB/s
/// between its GPUs, of 1.2 GB/s and 50 us between hosts. For the order of layouts rather than for their
/// times.
Cluster rough_cluster(const MeasuredRank& rank, const RoughRanks& ranks);

/// The same with rates that are none of this machine's: to know what fits.
Cluster assumed_cluster(const MeasuredRank& rank, int ranks_of_host);

}  // namespace trireme
