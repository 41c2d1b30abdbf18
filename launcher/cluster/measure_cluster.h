// Measures this machine for a cluster description: `trireme doctor --measure`.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/host/link_rates.h"
#include "parallel/cluster/cluster.h"
#include "runtime/base/device.h"

namespace trireme {

struct MeasuredRank {
  Device device;
  int threads = 1;                // per rank
  int num_ranks = 1;              // on this host, computing at the same time
  int cores = 0;                  // shared by the ranks of this host; 0: not shared
  std::int64_t memory_bytes = 0;  // per rank, of the device
  std::optional<LinkRates> link;  // for two or more ranks
  double waiting_share = 0;       // for ranks that share cores
};

/// Times large products of each dtype, copies, and the calls in a step of reference_jobs(). On a CPU, calls
/// are timed within steps. On a GPU each call is timed separately. Takes one or two minutes on two idle cores
/// or on a GPU. `observe` is called before each part with its name and the fraction of the parts that are
/// done.
Cluster measure_cluster(const MeasuredRank& rank,
                        const std::function<void(const std::string& what, double done)>& observe);

/// For ranks with more threads than cores. Returns `old` with a device for this number of ranks. Its calls
/// are those measured for ranks with the same threads and unshared cores; its link and waiting share are from
/// `rank`. Throws Error(kInvalidInput) if `old` has no such calls.
Cluster with_shared_cores(Cluster old, const MeasuredRank& rank);

/// Merges `now` into `old`: replaces devices of the same name, host and framework; keeps links and devices
/// measured with other numbers of threads.
Cluster merged(const Cluster& old, const Cluster& now);

}  // namespace trireme
