// A short measurement of the all-reduce bandwidth of this job's ranks, for `trireme doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/host/device.h"

namespace trireme {

/// As in nccl-tests, GB = 1e9 bytes. The algorithm bandwidth is buffer bytes / time. The bus bandwidth is
/// that times 2 (n - 1) / n; it does not depend on the number of ranks n and is comparable with a link's
/// rate.
struct AllReduceBandwidth {
  struct Size {
    std::int64_t bytes = 0;  // buffer of each rank
    double ms = 0;           // per call, mean of many, on the slowest rank
    double algorithm_gb_per_s = 0;
    double bus_gb_per_s = 0;
  };
  std::string communicator;  // "mpi"
  std::string device;        // of rank 0
  int num_ranks = 0;
  std::vector<Size> sizes;
  std::string problem;  // why nothing was measured; empty: measured
};

/// 2 (n - 1) / n.
double all_reduce_bus_factor(int num_ranks);

/// All-reduces fp32 buffers of 4 KiB to 64 MiB over all ranks in place, for a quarter of a second each size.
/// Collective. Throws Error(kCommunication) if a sum is wrong.
AllReduceBandwidth measure_all_reduce(const RankDevice& rank);

}  // namespace trireme
