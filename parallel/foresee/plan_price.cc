#include "parallel/foresee/plan_price.h"

#include <algorithm>
#include <numeric>

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
  for (int rank = 0; rank < alone.num_ranks; ++rank) {
    result.compute_ms = std::max(result.compute_ms, alone.busy_ms(rank));
  }
  result.bubble_share = alone.bubble_share() * alone.end_ms() / result.step_ms;
  const std::vector<double> work = count_block_work(*job.blocks, job.sample);
  result.forward_operations = std::accumulate(work.begin(), work.end(), 0.0);
  const double promised = 1e-3 * result.step_ms * job.num_ranks * peak_of(job, cluster, device);
  result.mfu = 3 * result.forward_operations * static_cast<double>(job.options.global_batch) / promised;
  return result;
}

}  // namespace trireme
