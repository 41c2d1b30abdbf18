// What a layout's step takes and its ranks need at the least, in a fraction of the time of a price.
//
// [Note: bounds of layouts] Four bounds on the time, each found in more time than the one before. (1) The
// blocks of the stage that has most to do, and the micro-batch that it waits for. (2) The pipeline: the plan
// simulated without what data ranks exchange and without the update, the same for all ways to shard. (3)
// Behind that what the first rank still has to do once it ran the last micro-batch through its first chunk:
// what it exchanges from there on, and the update; and before that its wait for the parameters of the first
// one. Its exchanges together take no longer than the step either. (4) One tensor rank of each stage,
// simulated: where exchanges pass while micro-batches run, (3) is far below. Two on the memory: parameters
// and optimizer, the activations of the micro-batches in flight, and the gradients and parameters that are
// kept whole; and the peak of a step with fewer micro-batches, played.
//
// The times are of the fastest cut, with the means of few micro-batches, and (2) is of one way to shard: they
// were seen above the price, by up to 0.4 %. So a layout that a bound is of may take kSureShare of it.
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

/// Of a bound in [Note: bounds of layouts]: no layout takes less.
constexpr double kSureShare = 0.995;

/// Of a family of layouts.
struct PipelineBound {
  double ms = 0;                 // until the first rank ran its last backward
  std::vector<PlanPeaks> bytes;  // of each stage
};

/// Of layouts of one job. All but prepare() may be called by several threads at once. Throws as StepPrice.
class LayoutBounds {
 public:
  LayoutBounds(const Cluster& cluster, const ClusterDevice& device) : cluster_(cluster), device_(device) {}

  /// Plays the blocks of each kind of family once.
  void prepare(const std::vector<LayoutFamily>& families, int threads);

  double blocks_ms(const PlannedJob& layout) const;
  PipelineBound pipeline(const PlannedJob& layout) const;
  double step_ms(const PlannedJob& layout, double pipeline_ms) const;
  double simulated_ms(const PlannedJob& layout) const;
  /// Of a rank of each stage, where all share parameters and optimizer equally.
  std::vector<std::int64_t> needed_bytes(const PlannedJob& layout, const PipelineBound& pipeline) const;
  /// False where a step of fewer micro-batches needs more than `limit` on a rank of some stage; if stages
  /// `may_be_cut` in another way, more than may_be_cut_within() lets them.
  bool may_fit(const PlannedJob& layout, std::int64_t limit, bool may_be_cut) const;
  /// The layout with the cut that its engine would find, which takes time.
  PlannedJob with_cut(PlannedJob layout) const;

 private:
  /// Of one micro-batch, with one stage.
  struct BlockNeeds {
    std::vector<double> ms;                // forward and backward, with what tensor ranks exchange in them
    std::vector<double> recompute_ms;      // of that: what need not wait for the gradient
    std::vector<std::int64_t> kept_bytes;  // alive after its forward, and those of the blocks before it
    std::vector<std::int64_t> output_bytes, gradient_bytes;
  };
  // By tensor ranks, micro-batch, recompute_every, recompute and sequence.
  using BlocksKey = std::tuple<int, std::int64_t, int, Recompute, bool>;
  using StateKey = std::tuple<int, int, ZeroStage>;  // tensor ranks, stages

  using TimeOf = std::function<ActionTime(int rank, const Action& action)>;

  static BlocksKey key_of(const EngineOptions& options);
  BlockNeeds needs_of(const PlannedJob& layout) const;
  ChunkBytes chunk_bytes(const StageMap& stages, const BlockNeeds& blocks) const;
  Timeline simulate(const PlannedJob& layout, const StepPlan& plan, const TimeOf& of) const;
  /// Of parameters and optimizer, of a rank of every stage together.
  std::int64_t state_bytes(const PlannedJob& layout, ZeroStage zero) const;

  const Cluster& cluster_;
  const ClusterDevice& device_;
  std::map<BlocksKey, BlockNeeds> blocks_;
  std::map<std::pair<int, int>, StageMap> cuts_;  // by stages and chunks
  mutable std::mutex mutex_;
  mutable std::map<StateKey, std::int64_t> state_bytes_;
};

}  // namespace trireme
