// The speed at which the ranks of this job sum gradients: a short measurement for `trireme doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/host/device.h"

namespace trireme {

/// In nccl-tests' convention, GB = 1e9 bytes: the algorithm's bandwidth is buffer bytes / time, the bus
/// bandwidth that times 2 (n - 1) / n, which does not depend on the number of ranks n and compares with a
/// link's rate.
struct AllReduceBandwidth {
  struct Size {
    std::int64_t bytes = 0;  // of a rank's buffer
    double ms = 0;           // of one call, the mean of many, of the slowest rank
    double algorithm_gb_per_s = 0;
    double bus_gb_per_s = 0;
  };
  std::string communicator;  // "mpi"
  std::string device;        // of rank 0
  int num_ranks = 0;
  std::vector<Size> sizes;
  std::string problem;  // why nothing was measured; else empty
};

/// 2 (n - 1) / n.
double all_reduce_bus_factor(int num_ranks);

/// Sums fp32 buffers of 1 MiB and 64 MiB over all ranks, in place, for a quarter of a second each.
/// Collective. Throws Error(kCommunication) when a sum is wrong.
AllReduceBandwidth measure_all_reduce(const RankDevice& rank);

}  // namespace trireme
