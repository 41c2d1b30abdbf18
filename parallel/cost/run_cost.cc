#include "parallel/cost/run_cost.h"

namespace trireme {
namespace {

constexpr double kHoursOfAMonth = 730;

}  // namespace

RunCost cost_of_run(const CostedRun& run, const ClusterCost& cost, double price_per_hour, Offer offer,
                    std::uint64_t seed) {
  const bool preemptible = offer == Offer::kPreemptible;
  RunCost result{.offer = offer, .save_s = run.save_s.value_or(run.checkpoint_gb / cost.save_gb_s)};
  result.outcome = simulate_runs(
      {.points = run.points,
       .policy = run.policy,
       .steps = run.steps,
       .save_s = result.save_s,
       .restart_s = cost.restart_s,
       .interruptions_per_hour = cost.failures_per_hour + (preemptible ? cost.interruptions_per_hour : 0)},
      seed);
  const double price = price_per_hour * (preemptible ? 1 - cost.preemptible_discount : 1);
  result.devices = result.outcome.device_hours * price;
  result.storage = (run.checkpoint_gb * run.kept_checkpoints + cost.data_gb) * cost.storage_per_gb_month *
                   result.outcome.hours / kHoursOfAMonth;
  result.network = run.checkpoint_gb * result.outcome.saves * cost.network_per_gb;
  return result;
}

}  // namespace trireme
