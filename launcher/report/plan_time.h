// The time in `trireme plan --cluster`: a job's step on a cluster described by a file.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>

#include "launcher/config/config.h"
#include "launcher/host/measured_card.h"
#include "parallel/cluster/cluster.h"
#include "parallel/foresee/plan_price.h"
#include "runtime/base/error.h"

namespace trireme {

/// A cluster file, and the ranks' device in it.
struct ClusterChoice {
  Cluster cluster;
  std::string file, device;

  const ClusterDevice& ranks_device() const { return cluster.device(device); }
};

struct RankPlace {
  int threads = 1;                     // per rank
  int num_ranks = 1;                   // in the job
  const char* chosen_by = "--device";  // for messages
};

/// Reads the file. `device` names one of its devices. If it is empty, selects the only device, or the only
/// one that was measured for ranks like `place`. A device for exactly this number of ranks has priority over
/// one for any number. Throws Error(kInvalidInput) with the list of devices.
ClusterChoice read_cluster_choice(const std::string& file, const std::string& device, const RankPlace& place);

/// The same for a cluster already read, with the device's name or "" in `choice.device`.
ClusterChoice with_device(ClusterChoice choice, const RankPlace& place);

/// The cluster with the device for a number of ranks.
using ClusterOfRanks = std::function<ClusterChoice(int num_ranks)>;

/// Returns `price()`. Adds the name of the file to a ClusterError.
template <class Price>
auto priced_on(const ClusterChoice& choice, const Price& price) {
  try {
    return price();
  } catch (const ClusterError& error) {
    throw error.saying(fmt::format("{}: {}", choice.file, error.what()));
  }
}

/// The device's memory as a rank's limit. No context is subtracted, because the file does not describe one.
MeasuredCard card_of(const ClusterChoice& choice);

struct PlanTime {
  std::string cluster, device;
  PlanPrice price;
  double samples_per_s = 0, tokens_per_s = 0;  // over all ranks; 0 tokens: samples have no tokens
  std::int64_t steps = 0;                      // in the job
  double hours = 0, cost = 0;  // for all steps, without interruptions; cost by price_per_hour, 0: unknown
};

PlanTime plan_time(const JobConfig& config, const PlannedJob& job, const StepPlan& plan,
                   const ClusterChoice& choice);

std::string to_text(const PlanTime& time);

}  // namespace trireme
