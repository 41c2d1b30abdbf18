#include "launcher/python/job_plan.h"

#include <utility>

#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/job/build.h"
#include "launcher/job/chosen_cut.h"
#include "launcher/render/json_text.h"
#include "launcher/report/plan_report.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

void refuse_measured(const ParallelSection& parallel) {
  const bool cuts_by_times =
      parallel.layout.pipeline > 1 && parallel.pipeline_cut.kind == PipelineCut::Kind::kMeasured;
  if (!parallel.is_searched() && !cuts_by_times) return;
  throw Error(ErrorCode::kUnsupported,
              "{} is chosen by measurements, which a plan in Python does not make: set a value, or use "
              "`trireme plan`",
              cuts_by_times ? "parallel.pipeline_cut = \"measured\"" : "parallel.layout = \"auto\"");
}

std::optional<ClusterChoice> cluster_of(const JobConfig& config, const PlanRequest& request) {
  if (!request.cluster) return std::nullopt;
  const int threads = config.parallel.threads > 0 ? static_cast<int>(config.parallel.threads)
                                                  : threads_per_rank(count_cores(), request.num_ranks);
  return read_cluster_choice(*request.cluster, request.device,
                             {.threads = threads, .num_ranks = request.num_ranks, .chosen_by = "device"});
}

}  // namespace

std::string plan_json(JobConfig config, const PlanRequest& request) {
  TRIREME_CHECK(request.num_ranks >= 1, "ranks={}: a plan has 1 rank or more", request.num_ranks);
  refuse_measured(config.parallel);
  batch_layout(config, request.num_ranks);  // throws if the batch cannot be laid out
  const auto cluster = cluster_of(config, request);
  std::optional<MeasuredCard> card;
  if (cluster) card = card_of(*cluster);
  if (cluster) config.parallel.device = cluster->ranks_device().type;
  config = counted_on(std::move(config), config.parallel.device.value_or(DeviceType::kCpu));
  const MeasuredCard* const of_card = card ? &*card : nullptr;
  if (config.parallel.layout.pipeline > 1 && config.parallel.pipeline_cut.kind == PipelineCut::Kind::kFlops) {
    const MemoryLimit limit = planned_limit(config, request.num_ranks, request.ranks_per_machine, of_card);
    config.parallel.pipeline_cut =
        flops_cut(config, {.num_ranks = request.num_ranks, .limit_bytes = limit.bytes});
  }
  return json_text(to_json(make_plan_report(config, request.num_ranks, request.ranks_per_machine, nullptr,
                                            of_card, cluster ? &*cluster : nullptr)),
                   -1);
}

}  // namespace trireme
