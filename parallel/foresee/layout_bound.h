// Lower bounds on a layout's step time, cheaper than its price.
//
// [Note: bounds of layouts] The first bound costs next to nothing: a stage runs its blocks for all
// micro-batches of the data rank with the most. Before and after that it waits while the stages before it run
// the first micro-batch forward and the last one backward. The blocks' times include the exchanges of tensor
// ranks inside them; other exchanges and the update are left out.
//
// The second bound includes them. One tensor rank of each stage is simulated, with times from a step of few
// micro-batches. It costs about a tenth of a price.
//
// Both are for the fastest cut, with means over few micro-batches. They were seen up to 0.4 % above the
// price, so bounds are multiplied by kSureShare.
#pragma once

#include <vector>

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/layout_candidates.h"

namespace trireme {

constexpr double kSureShare = 0.995;

/// Sets bound_ms of the candidates for `job` to the first bound. Throws as StepPrice does.
void set_block_bounds(std::vector<LayoutCandidate>& candidates, const PlannedJob& job, const Cluster& cluster,
                      const ClusterDevice& device);

/// The second bound, of the job with its layout. Throws as StepPrice does.
double simulated_bound_ms(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device);

}  // namespace trireme
