#include "parallel/foresee/plan_price.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "parallel/foresee/block_work.h"
#include "parallel/foresee/op_time.h"
#include "parallel/foresee/step_price.h"

namespace trireme {
namespace {

/// The units that multiply most of a job's products.
double peak_of(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device) {
  const Precision& precision = job.options.precision;
  const DType dtype = precision.dtype_of(OpKind::kLinear, DType::kFloat32);
  return OpTimes(cluster, device).peak(arithmetic_of(dtype, precision.math_of(OpKind::kLinear)), dtype);
}

/// Milliseconds that the cores of the busiest node compute for all of its ranks, where these have more
/// threads than there are cores; else 0. Ranks wait for each other meanwhile, and others compute: no core is
/// idle.
double shared_cores_ms(const Timeline& alone, const Cluster& cluster, const ClusterDevice& device) {
  const double threads = std::max(device.threads, 1.0);
  const int ranks = std::min(alone.num_ranks, cluster.ranks_per_node);
  if (cluster.host.cores == 0 || ranks * threads <= cluster.host.cores) return 0;
  const std::vector<double> busy = alone.busy_ms_of_ranks();
  double most = 0;
  for (std::size_t first = 0; first < busy.size(); first += static_cast<std::size_t>(ranks)) {
    const auto begin = busy.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + std::min<std::ptrdiff_t>(ranks, busy.end() - begin);
    most = std::max(most, std::accumulate(begin, end, 0.0) * threads / cluster.host.cores);
  }
  return most;
}

}  // namespace

PlanPrice price_plan(const PlannedJob& job, const StepPlan& plan, const Cluster& cluster,
                     const ClusterDevice& device, KeepTimeline keep) {
  const StepPrice price(job, cluster, device);
  ActionTimes times{
      .unit_names = {}, .of = {}, .overlap = cluster.host.overlap, .labels = keep == KeepTimeline::kYes};
  for (const auto& block : *job.blocks) times.unit_names.push_back(block->name());
  times.of = [&](int rank, const Action& action) { return price.of(plan.mesh.coord(rank), action); };
  PlanPrice result{.timeline = simulate_plan(plan, times)};
  times.of = [&](int rank, const Action& action) -> ActionTime {
    return {.compute_ms = price.of(plan.mesh.coord(rank), action).compute_ms, .exchange_ms = 0.0};
  };
  times.labels = false;
  const Timeline alone = simulate_plan(plan, times);
  result.step_ms = result.timeline.end_ms();
  result.exposed_ms = result.step_ms - alone.end_ms();
  if (keep == KeepTimeline::kNo) result.timeline.spans.clear();
  result.compute_ms = std::ranges::max(alone.busy_ms_of_ranks());
  const double compute_ms = std::max(alone.end_ms(), shared_cores_ms(alone, cluster, device));
  result.step_ms = compute_ms + result.exposed_ms;
  result.bubble_share = alone.bubble_share() * alone.end_ms() / result.step_ms;
  const std::vector<double> work = count_block_work(*job.blocks, job.sample);
  result.forward_operations = std::accumulate(work.begin(), work.end(), 0.0);
  const double promised = 1e-3 * result.step_ms * job.num_ranks * peak_of(job, cluster, device);
  result.mfu = 3 * result.forward_operations * static_cast<double>(job.options.global_batch) / promised;
  return result;
}

}  // namespace trireme
