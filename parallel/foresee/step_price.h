// Times of the actions of a job's ranks on a cluster, from what they call on the meta device: operators by
// shape, exchanges by bytes and group.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/plan_simulate.h"
#include "parallel/foresee/predict.h"

namespace trireme {

/// The ranks whose times are wanted.
enum class PricedRanks {
  kAll,
  // For bounds: of a step with as few micro-batches as short_step() leaves, if its sums are canonical. About
  // that of kAll or less, as there are fewer sums.
  kFirstTensorPlace,
  kFirst,  // rank 0 alone
};

/// Times of the actions of all ranks. Ranks that share a stage and a tensor place have equal ones, as have
/// micro-batches: of what differs between them (sums of the reduction tree) each has the mean.
class StepPrice {
 public:
  /// Runs a step of a rank of each stage on the meta device, of no more micro-batches than it takes. Stages
  /// whose blocks are twins share one.
  /// Throws Error(kInvalidInput) for a precision without a peak, a missing link, and as Engine does.
  StepPrice(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
            PricedRanks ranks = PricedRanks::kAll);

  ActionTime of(const Coord& coord, const Action& action) const;
  /// Milliseconds that a rank of a stage computes in a step, without any wait.
  double busy_ms(const RankPlan& plan, const Coord& coord) const;

 private:
  friend class PriceRecorder;
  friend class TwinStages;
  using Place = std::pair<int, bool>;  // stage, whether the first tensor place
  using Key = std::pair<ActionKind, int>;
  struct Mean {
    double compute_s = 0, exchange_s = 0;
    int count = 0;
  };
  using Means = std::map<Key, Mean>;
  std::map<Place, Means> times_;
};

}  // namespace trireme
