#include "launcher/report/foreseen_step.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/job/accumulation.h"
#include "launcher/job/build.h"
#include "launcher/job/chosen_cut.h"
#include "launcher/render/text_table.h"
#include "launcher/report/layouts_report.h"
#include "launcher/report/plan_report.h"
#include "parallel/mesh/hosts.h"

namespace trireme {

namespace {

ForeseenStep foresee_fastest(const JobConfig& job, const ClusterChoice& cluster, int num_ranks,
                             const TellProgress& on_progress) {
  const int machine = std::min(num_ranks, cluster.cluster.ranks_per_node);
  const LayoutsReport report = find_layouts(
      job, cluster,
      {.num_ranks = num_ranks, .ranks_per_machine = machine, .most = 1, .on_progress = on_progress});
  TRIREME_CHECK(!report.found.best.empty(), "{} ranks: {}", num_ranks, describe_none(report));
  const FoundLayout& best = report.found.best[0];
  return {.num_ranks = num_ranks,
          .device = cluster.device,
          .price = best.price,
          .peak_bytes = best.peak_bytes,
          .limit_bytes = report.limit_bytes};
}

}  // namespace

ForeseenStep foresee_step(const JobConfig& job, const ClusterChoice& cluster, int num_ranks,
                          const TellProgress& on_progress) {
  if (job.parallel.is_searched()) return foresee_fastest(job, cluster, num_ranks, on_progress);
  if (on_progress) on_progress("foreseeing a step on " + plural(num_ranks, "rank"));
  const ClusterDevice& device = cluster.ranks_device();
  JobConfig config = job;
  config.parallel.device = device.type;
  config.parallel.hosts = hosts_of(num_ranks, std::min(num_ranks, cluster.cluster.ranks_per_node));
  batch_layout(config, num_ranks);  // throws if the batch cannot be laid out
  const MeasuredCard card = card_of(cluster);
  const MemoryLimit limit = planned_limit(config, num_ranks, 0, &card);
  if (config.parallel.layout.pipeline > 1 && config.parallel.pipeline_cut.kind == PipelineCut::Kind::kFlops)
    config.parallel.pipeline_cut = flops_cut(config, {.num_ranks = num_ranks, .limit_bytes = limit.bytes});
  const auto blocks = build_blocks(config.model);
  config = with_accumulation(config, blocks, num_ranks, limit);
  const PlannedJob planned = planned_job(config, blocks, num_ranks);
  ForeseenStep step{.num_ranks = num_ranks, .device = cluster.device};
  step.price = priced_on(cluster, [&] { return price_layout(planned, cluster.cluster, device); });
  EngineOptions own = planned.options;
  own.planning = Planning::kOwnRank;
  step.peak_bytes = predict_largest_step(planned.blocks, own, planned.sample, num_ranks).memory.device_peak;
  step.limit_bytes = limit.bytes;
  return step;
}

std::vector<int> doublings(int first, int last) {
  std::vector<int> all;
  for (long ranks = first; ranks <= last; ranks *= 2) all.push_back(static_cast<int>(ranks));
  return all;
}

}  // namespace trireme
