#include "launcher/report/foreseen_step.h"

#include <algorithm>

#include "launcher/train/build.h"
#include "parallel/mesh/hosts.h"

namespace trireme {

ForeseenStep foresee_step(const JobConfig& job, const ClusterChoice& cluster, int num_ranks) {
  const ClusterDevice& device = cluster.ranks_device();
  JobConfig config = job;
  config.parallel.device = device.type;
  config.parallel.hosts = hosts_of(num_ranks, std::min(num_ranks, cluster.cluster.ranks_per_node));
  batch_layout(config, num_ranks);  // refuses what cannot be laid out
  const PlannedJob planned = planned_job(config, build_blocks(config.model), num_ranks);
  ForeseenStep step{.num_ranks = num_ranks};
  step.price = priced_on(cluster, [&] { return price_layout(planned, cluster.cluster, device); });
  EngineOptions own = planned.options;
  own.planning = Planning::kOwnRank;
  step.peak_bytes = predict_largest_step(planned.blocks, own, planned.sample, num_ranks).memory.device_peak;
  step.limit_bytes =
      job.parallel.memory_limit > 0 ? job.parallel.memory_limit : card_of(cluster).usable_bytes();
  return step;
}

std::vector<int> doublings(int first, int last) {
  std::vector<int> all;
  for (long ranks = first; ranks <= last; ranks *= 2) all.push_back(static_cast<int>(ranks));
  return all;
}

}  // namespace trireme
