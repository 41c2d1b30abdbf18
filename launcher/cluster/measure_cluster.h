// This machine as a description of a cluster: `trireme doctor --measure`.
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
  int threads = 1;                // of a rank
  int num_ranks = 1;              // that share this host, and compute at the same time
  int cores = 0;                  // that the ranks of this host share; 0: none
  std::int64_t memory_bytes = 0;  // of a rank
  std::optional<LinkRates> link;  // of two or more ranks
  double waiting_share = 0;       // of ranks that share cores
};

/// Times the calls of a step of small models, of each family, by themselves: GPTs in every precision of the
/// device, others in fp32 and bf16. About a minute on two cores. `observe` is told of each part.
Cluster measure_cluster(const MeasuredRank& rank, const std::function<void(const std::string&)>& observe);

/// For more threads of ranks than there are cores: `old` with a device for so many ranks, which has the calls
/// that were measured for ranks with as many threads on cores of their own, the link of these ranks, and what
/// they take of the cores while they wait.
/// Throws Error(kInvalidInput) where `old` has no such calls.
Cluster with_shared_cores(Cluster old, const MeasuredRank& rank);

/// `old` with what `now` has measured: a device of the same name is replaced, as are host and framework;
/// devices measured with other numbers of threads, and links, stay.
Cluster merged(const Cluster& old, const Cluster& now);

}  // namespace trireme
