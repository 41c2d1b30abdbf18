// The part of `trireme plan --cluster` about time: a job's step on a cluster that a file describes.
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

/// A cluster's file, and the device of it that the ranks have.
struct ClusterChoice {
  Cluster cluster;
  std::string file, device;

  const ClusterDevice& ranks_device() const { return cluster.device(device); }
};

struct RankPlace {
  int threads = 1;                     // of a rank
  int num_ranks = 1;                   // of the job
  const char* chosen_by = "--device";  // for messages
};

/// Reads the file. `device` names one of its devices; empty: the only one, or the only one that was measured
/// for such ranks; for their number before one for any number. Throws Error(kInvalidInput) that lists the
/// devices.
ClusterChoice read_cluster_choice(const std::string& file, const std::string& device, const RankPlace& place);

/// The same of a cluster that was read, with the name or "" in `choice.device`.
ClusterChoice with_device(ClusterChoice choice, const RankPlace& place);

/// The cluster with the device that so many ranks have.
using ClusterOfRanks = std::function<ClusterChoice(int num_ranks)>;

/// True of an engine's refusal, which names an option of the job, and of one that names a key of it.
bool is_about_job(const Error& error);

/// What `price` returns; an Error(kInvalidInput) of it names the file, if it is about the description.
template <class Price>
auto priced_on(const ClusterChoice& choice, const Price& price) {
  try {
    return price();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidInput || is_about_job(error)) throw;
    throw error.saying(fmt::format("{}: {}", choice.file, error.what()));
  }
}

/// The device's memory as a rank's limit. None of it is lost to a context, of which the file says nothing.
MeasuredCard card_of(const ClusterChoice& choice);

struct PlanTime {
  std::string cluster, device;
  PlanPrice price;
  double samples_per_s = 0, tokens_per_s = 0;  // of all ranks; 0 tokens: samples have none
  std::int64_t steps = 0;                      // of the job
  double hours = 0, cost = 0;  // of all of them, steps alone; the cost by price_per_hour, 0: not known
};

PlanTime plan_time(const JobConfig& config, const PlannedJob& job, const StepPlan& plan,
                   const ClusterChoice& choice);

std::string to_text(const PlanTime& time);

}  // namespace trireme
