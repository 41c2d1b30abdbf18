// Times of the actions of a job's ranks on a cluster, from their calls on the meta device: operators by
// shape, exchanges by bytes and group.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/plan_simulate.h"
#include "parallel/foresee/predict.h"

namespace trireme {

/// The ranks to time.
enum class PricedRanks {
  kAll,
  // For bounds: with canonical sums, a step with as few micro-batches as short_step() leaves. Times are
  // at most about the times of kAll, because there are fewer sums.
  kFirstTensorPlace,
};

/// Times of the actions of all ranks. Ranks with the same stage and tensor coordinate have equal times, and
/// so have micro-batches. For actions that differ between them (sums of the reduction tree), each has the
/// mean.
class StepPrice {
 public:
  /// Runs a step of one rank of each stage on the meta device, with no more micro-batches than necessary.
  /// Stages whose blocks are twins share one. Throws Error(kInvalidInput) for a precision without a peak, for
  /// a missing link, and as Engine does.
  StepPrice(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
            PricedRanks ranks = PricedRanks::kAll);

  ActionTime of(const Coord& coord, const Action& action) const;
  /// Milliseconds that a rank of a stage computes in a step, without waiting.
  double busy_ms(const RankPlan& plan, const Coord& coord) const;

 private:
  friend class PriceRecorder;
  friend class TwinStages;
  using Place = std::pair<int, bool>;  // stage, whether it is the first tensor coordinate
  using Key = std::pair<ActionKind, int>;
  struct Mean {
    double compute_s = 0, exchange_s = 0;
    int count = 0;
  };
  using Means = std::map<Key, Mean>;
  std::map<Place, Means> times_;
};

}  // namespace trireme
