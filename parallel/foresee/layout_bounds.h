// Lower bounds on a layout's step time and memory, much cheaper than a simulation.
//
// [Note: bounds of layouts] There are four bounds on the time. Each costs more to compute than the previous
// one.
//   1. The blocks of the stage with the most work, and the micro-batch that it waits for.
//   2. The pipeline: the plan simulated without exchanges between data ranks and without the update. It is
//     the same for all ways of sharding.
//   3. The pipeline, plus the first rank's wait for the parameters of the first micro-batch, plus its work
//     after the last micro-batch ran through its first chunk: the remaining exchanges and the update. The sum
//     of its exchanges is a bound, too.
//   4. One tensor rank of each stage, simulated. If exchanges overlap the micro-batches, bound 3 is far
//     below this one.
// There are two bounds on the memory: the sum of parameters, optimizer state, activations of the
// micro-batches in flight, and gradients and parameters that are kept whole; and the predicted peak of a step
// with fewer micro-batches.
//
// The times are for the fastest cut, with means over few micro-batches, and bound 2 is computed for one way
// of sharding. They were seen up to 0.4 % above the simulated time, so bounds are multiplied by kSureShare.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/layout_candidates.h"
#include "parallel/foresee/plan_peaks.h"
#include "parallel/foresee/plan_simulate.h"

namespace trireme {

/// Safety factor applied to a bound in [Note: bounds of layouts].
constexpr double kSureShare = 0.995;

/// Bounds of a family of layouts.
struct PipelineBound {
  double ms = 0;                 // until the first rank has run its last backward
  std::vector<PlanPeaks> bytes;  // by stage
};

/// Bounds for the layouts of one job. All but prepare() may be called by several threads at once. Throws as
/// StepPrice does.
class LayoutBounds {
 public:
  LayoutBounds(const Cluster& cluster, const ClusterDevice& device) : cluster_(cluster), device_(device) {}

  /// Plays the blocks of each kind of family once.
  void prepare(const std::vector<LayoutFamily>& families, int threads);

  double blocks_ms(const PlannedJob& layout) const;
  PipelineBound pipeline(const PlannedJob& layout) const;
  double step_ms(const PlannedJob& layout, double pipeline_ms) const;
  double simulated_ms(const PlannedJob& layout) const;
  /// For a rank of each stage, if all ranks share parameters and optimizer state equally.
  std::vector<std::int64_t> needed_bytes(const PlannedJob& layout, const PipelineBound& pipeline) const;
  /// False if a step of fewer micro-batches needs more than `limit` on a rank of some stage, or, if stages
  /// `may_be_cut` differently, more than may_be_cut_within() allows.
  bool may_fit(const PlannedJob& layout, std::int64_t limit, bool may_be_cut) const;
  /// The layout with the cut that its engine would compute; computing it takes time.
  PlannedJob with_cut(PlannedJob layout) const;

 private:
  /// Needs of one micro-batch, with one stage.
  struct BlockNeeds {
    std::vector<double> ms;            // forward and backward, with the exchanges of tensor ranks inside them
    std::vector<double> recompute_ms;  // the part that need not wait for the gradient
    std::vector<std::int64_t> kept_bytes;  // alive after its forward, including the blocks before it
    std::vector<std::int64_t> output_bytes, gradient_bytes;
  };
  // Tensor ranks, micro-batch, recompute_every, recompute and sequence.
  using BlocksKey = std::tuple<int, std::int64_t, int, Recompute, bool>;
  using StateKey = std::tuple<int, int, ZeroStage>;  // tensor ranks, stages

  using TimeOf = std::function<ActionTime(int rank, const Action& action)>;

  static BlocksKey key_of(const EngineOptions& options);
  BlockNeeds needs_of(const PlannedJob& layout) const;
  ChunkBytes chunk_bytes(const StageMap& stages, const BlockNeeds& blocks) const;
  Timeline simulate(const PlannedJob& layout, const StepPlan& plan, const TimeOf& of) const;
  /// Parameters and optimizer state of one rank per stage, summed over stages.
  std::int64_t state_bytes(const PlannedJob& layout, ZeroStage zero) const;

  const Cluster& cluster_;
  const ClusterDevice& device_;
  std::map<BlocksKey, BlockNeeds> blocks_;
  std::map<std::pair<int, int>, StageMap> cuts_;  // by stages and chunks
  mutable std::mutex mutex_;
  mutable std::map<StateKey, std::int64_t> state_bytes_;
};

}  // namespace trireme
