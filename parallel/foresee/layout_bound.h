// A lower bound on a layout's step time, much cheaper than a simulation.
//
// [Note: bound of layouts] A stage runs its blocks for all micro-batches of the data rank with the most.
// Before and after that it waits while the stages before it run the first micro-batch forward and the last
// one backward. Exchanges, but those of tensor ranks inside blocks, and the update are left out. Times of
// blocks are means over one micro-batch. They were seen up to 0.4 % above those of a simulation, so bounds
// are multiplied by kSureShare.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/predict.h"
#include "parallel/foresee/stage_cut.h"

namespace trireme {

/// Safety factor applied to a bound in [Note: bound of layouts].
constexpr double kSureShare = 0.995;

/// Bounds for the layouts of one job. Throws as StepPrice does.
class LayoutBound {
 public:
  /// `costs`: per block, for cuts.
  LayoutBound(const Cluster& cluster, const ClusterDevice& device, const std::vector<double>& costs)
      : cluster_(cluster), device_(device), costs_(costs) {}

  /// `layout`: the job with one of its layouts.
  double step_ms(const PlannedJob& layout);

 private:
  /// Milliseconds of a micro-batch in each block, forward and backward.
  struct BlockTimes {
    std::vector<double> all;
    std::vector<double> waited;  // without recompute, which need not wait for a gradient
  };
  const BlockTimes& times_of(const PlannedJob& layout);

  const Cluster& cluster_;
  const ClusterDevice& device_;
  const std::vector<double>& costs_;
  std::map<std::pair<int, int>, StageMap> cuts_;  // by stages and chunks
  // By tensor ranks, micro-batch, recompute_every, recompute and sequence.
  std::map<std::tuple<int, std::int64_t, int, Recompute, bool>, BlockTimes> times_;
};

}  // namespace trireme
