// Chooses the layout of a job with parallel.layout = "auto", before anything runs.
#pragma once

#include <cstdint>
#include <memory>

#include "launcher/config/config.h"
#include "launcher/report/plan_time.h"
#include "parallel/comm/communicator.h"
#include "runtime/base/device.h"

namespace trireme {

/// The ranks to choose a layout for.
struct LayoutRanks {
  int num_ranks = 1;
  HostMap hosts;  // of all ranks; empty: one host
  Device device;  // of a rank
  int threads = 1;
  std::int64_t limit_bytes = 0;  // of a rank; 0: the memory of the cluster description's device
};

/// The source of rates for a machine without a cluster description.
enum class Rates {
  kMeasured,  // measured by this process alone
  kAtOnce,    // measured by all ranks of the job at the same time
  kAssumed,   // assumed; enough to decide what fits
};

/// The cluster for the search: parallel.cluster, or a rough description of this machine.
ClusterChoice cluster_of_search(const JobConfig& config, const LayoutRanks& ranks, Rates rates);

/// The job with the fastest fitting layout, and a message that describes the choice. Throws
/// Error(kInvalidInput) if none fits, with the one closest to fitting.
struct ChosenLayout {
  JobConfig config;
  std::string message;
};
ChosenLayout choose_layout(const JobConfig& config, const ClusterChoice& cluster, const LayoutRanks& ranks);

/// Collective. The job with its layout, on every rank. For parallel.layout = "auto", rank 0 chooses for the
/// rank with the least memory and logs the choice. Other jobs are unchanged.
JobConfig with_chosen_layout(const JobConfig& config, const std::shared_ptr<Communicator>& comm,
                             const LayoutRanks& mine);

}  // namespace trireme
