// The running statistics of the blocks that a rank runs: those of its stage, in one flat buffer, the same on
// every data rank. See [Note: running statistics].
#pragma once

#include <string>
#include <vector>

#include "parallel/layout/batch_layout.h"
#include "parallel/layout/stage_map.h"
#include "parallel/mesh/mesh_groups.h"
#include "runtime/block.h"
#include "runtime/context.h"

namespace trireme {

class StatisticStore {
 public:
  /// Makes the initial values. Throws Error(kInvalidInput) for a name that two statistics have.
  StatisticStore(const Context& ctx, const BlockList& blocks, const BatchLayout& batch,
                 const MeshGroups& groups, const StageMap& stages);

  Tensor value(int unit, StatisticRef ref) const;
  /// The target of a local micro-batch's sample of the step.
  Tensor sample(int unit, StatisticRef ref, int micro_batch) const;

  /// Moves the values by the samples of the step, unless `skip` is not 0. Collective over the data axis where
  /// the stage has any.
  void reduce(const Tensor& skip);

  struct Entry {
    std::string name;  // full
    Shape shape;
    std::int64_t offset = 0;     // in whole()
    std::int64_t owned_at = -1;  // in values(); -1: another stage has it
  };
  /// Those of all blocks, in order, whichever stage has them.
  const std::vector<Entry>& entries() const { return entries_; }
  /// Those of this stage, fp32; undefined where it has none.
  const Tensor& values() const { return values_; }
  /// Those of all stages, padded with zeros to whole norm blocks; undefined where there are none. Collective
  /// over the pipeline axis.
  Tensor whole() const;

 private:
  /// Neighbours of one stage.
  struct Piece {
    int stage = 0;
    std::int64_t first = 0, last = 0;  // in whole()
  };
  /// Neighbours that move with one momentum.
  struct Run {
    std::int64_t first = 0, last = 0;
    float momentum = 0.0f;
  };
  const Entry& entry(int unit, StatisticRef ref) const;
  void lay_out(const BlockList& blocks, const StageMap& stages);
  /// Gives an entry of this stage its place.
  void own(Entry& entry, float momentum);
  void fill(const BlockList& blocks);

  const Context ctx_;
  const BatchLayout batch_;
  const MeshGroups groups_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> first_of_unit_;
  std::vector<Piece> pieces_;
  std::vector<Run> runs_;         // in values()
  std::int64_t num_elems_ = 0;    // of all stages, without padding at the end
  std::int64_t owned_elems_ = 0;  // of this stage, the same way
  Tensor values_;
  Tensor samples_;  // [local micro-batches, owned_elems]
};

/// A unit's statistics as its block sees them; micro_batch -1: without samples.
class UnitStatistics final : public StatisticResolver {
 public:
  UnitStatistics(const StatisticStore& store, int unit, int micro_batch)
      : store_(store), unit_(unit), micro_batch_(micro_batch) {}
  Tensor value(StatisticRef ref) override { return store_.value(unit_, ref); }
  Tensor sample(StatisticRef ref) override {
    return micro_batch_ >= 0 ? store_.sample(unit_, ref, micro_batch_) : Tensor();
  }

 private:
  const StatisticStore& store_;
  const int unit_, micro_batch_;
};

}  // namespace trireme
