// The layout of a job that leaves it to a search, parallel.layout = "auto": chosen before anything runs.
#pragma once

#include <cstdint>
#include <memory>

#include "launcher/config/config.h"
#include "launcher/report/plan_time.h"
#include "parallel/comm/communicator.h"
#include "runtime/base/device.h"

namespace trireme {

/// The ranks that a layout is chosen for.
struct LayoutRanks {
  int num_ranks = 1;
  HostMap hosts;  // of every rank; empty: one host
  Device device;  // of a rank, and its host threads
  int threads = 1;
  std::int64_t limit_bytes = 0;  // of a rank; 0: the memory of the description's device
};

/// The rates of this machine where nobody has described it.
enum class Rates {
  kMeasured,  // by this process alone
  kAtOnce,    // by all ranks of the job at the same time
  kAssumed,   // only to know what fits
};

/// What the search knows of the ranks: parallel.cluster, else this machine, roughly.
ClusterChoice cluster_of_search(const JobConfig& config, const LayoutRanks& ranks, Rates rates);

/// The job with the fastest layout that fits as its own, and a message that says which. Throws
/// Error(kInvalidInput) where none fits, with the one that comes closest.
struct ChosenLayout {
  JobConfig config;
  std::string message;
};
ChosenLayout choose_layout(const JobConfig& config, const ClusterChoice& cluster, const LayoutRanks& ranks);

/// Collective. What a job with parallel.layout = "auto" runs, on every rank: rank 0 chooses for the rank with
/// the least memory, and says what. A job that gives its layout stays as it is.
JobConfig with_chosen_layout(const JobConfig& config, const std::shared_ptr<Communicator>& comm,
                             const LayoutRanks& mine);

}  // namespace trireme
