#include "parallel/foresee/step_price.h"

#include "parallel/foresee/op_time.h"

namespace trireme {

StepPrice::StepPrice(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
                     PricedRanks ranks) {
  const StepRecord record(job, ranks);
  const OpTimes times(cluster, device);
  const ClusterNetwork network(cluster, device);
  std::vector<double> op_s, exchange_s;
  for (const OpShape& op : record.ops) op_s.push_back(times.seconds(op));
  for (const ExchangeShape& exchange : record.exchanges) exchange_s.push_back(exchange.seconds(network));
  for (const auto& [place, by_action] : record.calls) {
    for (const auto& [key, calls] : by_action) {
      times_[place][key] = {.compute_ms = 1e3 * calls.mean(calls.ops, op_s),
                            .exchange_ms = 1e3 * calls.mean(calls.exchanges, exchange_s)};
    }
  }
}

ActionTime StepPrice::of(const Coord& coord, const Action& action) const {
  const auto& times = times_.at({coord[Axis::kPipeline], coord[Axis::kTensor] == 0});
  const auto found = times.find({action.kind, action.unit});
  return found == times.end() ? ActionTime{.compute_ms = 0, .exchange_ms = 0.0} : found->second;
}

double StepPrice::busy_ms(const RankPlan& plan, const Coord& coord) const {
  double sum = 0;
  for (const Action& action : plan.actions) sum += of(coord, action).compute_ms;
  return sum;
}

}  // namespace trireme
