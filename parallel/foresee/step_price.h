// Times of the actions of a job's ranks on a cluster, from a record of their calls.
#pragma once

#include <map>

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/plan_simulate.h"
#include "parallel/foresee/step_record.h"

namespace trireme {

/// Times of the actions of all ranks. Ranks with the same stage and tensor coordinate have equal times, and
/// so have micro-batches. For actions that differ between them (sums of the reduction tree), each has the
/// mean.
class StepPrice {
 public:
  /// Throws Error(kInvalidInput) for a precision without a peak, for a missing link, and as StepRecord does.
  StepPrice(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
            PricedRanks ranks = PricedRanks::kAll);

  ActionTime of(const Coord& coord, const Action& action) const;
  /// Milliseconds that a rank of a stage computes in a step, without waiting.
  double busy_ms(const RankPlan& plan, const Coord& coord) const;

 private:
  std::map<StepRecord::Place, std::map<StepRecord::Key, ActionTime>> times_;
};

}  // namespace trireme
