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

/// Milliseconds that the cores of a node need for all of its ranks, where these have more threads than there
/// are cores; else 0. Ranks wait for each other meanwhile, and others compute: no core is idle, but those who
/// wait look for messages, which takes a share of a core. Nodes have equal shares. `weights`: the ranks that
/// each rank of the timeline stands for; empty: 1.
double shared_cores_ms(const Timeline& alone, std::vector<double> weights, const PlannedJob& job,
                       const Cluster& cluster, const ClusterDevice& device) {
  const double threads = std::max(device.threads, 1.0);
  const int of_node = std::min(job.num_ranks, cluster.ranks_per_node);
  if (cluster.host.cores == 0 || of_node * threads <= cluster.host.cores) return 0;
  const std::vector<double> busy = alone.busy_ms_of_ranks();
  weights.resize(busy.size(), 1.0);
  double sum = 0;
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    const double waits = std::max(0.0, alone.end_ms() - busy[rank]);
    sum += weights[rank] * (busy[rank] * threads + waits * cluster.host.waiting_share);
  }
  return sum * of_node / job.num_ranks / cluster.host.cores;
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
