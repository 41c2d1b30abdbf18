#include "parallel/foresee/plan_price.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "parallel/foresee/folded_plan.h"
#include "parallel/foresee/op_time.h"
#include "parallel/foresee/step_price.h"
#include "parallel/layout/block_work.h"

namespace trireme {

double peak_of(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device) {
  const Precision& precision = job.options.precision;
  const DType dtype = precision.dtype_of(OpKind::kLinear, DType::kFloat32);
  return OpTimes(cluster, device).peak(arithmetic_of(dtype, precision.math_of(OpKind::kLinear)), dtype);
}

namespace {

/// Changes of the number of computing ranks, by time.
std::map<double, double> changes_of_busy(const Timeline& alone, const std::vector<double>& weights) {
  std::map<double, double> changes;
  for (const TimelineSpan& span : alone.spans) {
    if (span.spent == TimeSpent::kExchange) continue;
    const double ranks = weights.empty() ? 1 : weights[static_cast<std::size_t>(span.rank)];
    changes[span.start_ms] += ranks;
    changes[span.end_ms] -= ranks;
  }
  return changes;
}

/// [Note: shared cores] If the ranks of a node have more threads than there are cores, the ranks that compute
/// share the cores equally, and a rank that waits takes `waiting_share` of a core. At each moment, therefore,
/// all computing ranks slow down by one factor, and the order of events stays the same. So the timeline of
/// ranks with their own cores is computed first, and then stretched moment by moment. Nodes have equal
/// shares.
///
/// Returns the stretched length in milliseconds; the length of `alone` if each rank has its own cores.
/// `weights`: the number of ranks that each rank of the timeline represents; empty: 1.
double on_shared_cores_ms(const Timeline& alone, const std::vector<double>& weights, const PlannedJob& job,
                          const Cluster& cluster, const ClusterDevice& device) {
  const double threads = std::max(device.threads, 1.0), cores = cluster.host.cores;
  const int of_node = std::min(job.num_ranks, cluster.ranks_per_node);
  if (cores == 0 || of_node * threads <= cores) return alone.end_ms();
  double busy = 0, before = 0, stretched = 0;
  for (const auto& [at, change] : changes_of_busy(alone, weights)) {
    const double computing = busy * of_node / job.num_ranks;
    const double wanted = threads * computing + cluster.host.waiting_share * (of_node - computing);
    stretched += (at - before) * std::max(1.0, wanted / cores);
    busy += change;
    before = at;
  }
  return stretched;
}

/// `weights` as in on_shared_cores_ms().
PlanPrice price(const PlannedJob& job, const StepPlan& plan, const std::vector<double>& weights,
                const Cluster& cluster, const ClusterDevice& device, KeepTimeline keep) {
  const double peak = peak_of(job, cluster, device);  // first, because it refuses a precision
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
  result.step_ms = on_shared_cores_ms(alone, weights, job, cluster, device) + result.exposed_ms;
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
