#include "parallel/foresee/plan_price.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "parallel/foresee/block_work.h"
#include "parallel/foresee/folded_plan.h"
#include "parallel/foresee/op_time.h"
#include "parallel/foresee/step_price.h"

namespace trireme {

double peak_of(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device) {
  const Precision& precision = job.options.precision;
  const DType dtype = precision.dtype_of(OpKind::kLinear, DType::kFloat32);
  return OpTimes(cluster, device).peak(arithmetic_of(dtype, precision.math_of(OpKind::kLinear)), dtype);
}

namespace {

/// Milliseconds that the cores of a node compute for all of its ranks, where these have more threads than
/// there are cores; else 0. Ranks wait for each other meanwhile, and others compute: no core is idle. Nodes
/// have equal shares. `weights`: the ranks that each rank of the timeline stands for; empty: 1.
double shared_cores_ms(const Timeline& alone, const std::vector<double>& weights, const PlannedJob& job,
                       const Cluster& cluster, const ClusterDevice& device) {
  const double threads = std::max(device.threads, 1.0);
  const int of_node = std::min(job.num_ranks, cluster.ranks_per_node);
  if (cluster.host.cores == 0 || of_node * threads <= cluster.host.cores) return 0;
  const std::vector<double> busy = alone.busy_ms_of_ranks();
  const double sum = weights.empty() ? std::accumulate(busy.begin(), busy.end(), 0.0)
                                     : std::inner_product(busy.begin(), busy.end(), weights.begin(), 0.0);
  return sum * of_node / job.num_ranks * threads / cluster.host.cores;
}

/// `weights` as of shared_cores_ms().
PlanPrice price(const PlannedJob& job, const StepPlan& plan, const std::vector<double>& weights,
                const Cluster& cluster, const ClusterDevice& device, KeepTimeline keep) {
  const double peak = peak_of(job, cluster, device);  // first: it refuses a precision
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
  result.exposed_ms = result.timeline.end_ms() - alone.end_ms();
  result.step_ms =
      std::max(alone.end_ms(), shared_cores_ms(alone, weights, job, cluster, device)) + result.exposed_ms;
  if (keep == KeepTimeline::kNo) result.timeline.spans.clear();
  result.compute_ms = std::ranges::max(alone.busy_ms_of_ranks());
  result.bubble_share = std::max(0.0, alone.bubble_share()) * alone.end_ms() / result.step_ms;
  const std::vector<double> work = count_block_work(*job.blocks, job.sample);
  result.forward_operations = std::accumulate(work.begin(), work.end(), 0.0);
  const double promised = 1e-3 * result.step_ms * job.num_ranks * peak;
  result.mfu = 3 * result.forward_operations * static_cast<double>(job.options.global_batch) / promised;
  return result;
}

}  // namespace

PlanPrice price_plan(const PlannedJob& job, const StepPlan& plan, const Cluster& cluster,
                     const ClusterDevice& device, KeepTimeline keep) {
  return price(job, plan, {}, cluster, device, keep);
}

PlanPrice price_layout(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device) {
  const StepPlan plan = fold_plan(job);
  return price(job, plan, folded_weights(job, plan), cluster, device, KeepTimeline::kNo);
}

}  // namespace trireme
