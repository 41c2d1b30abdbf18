// The running statistics of the blocks that a rank runs: those of its stage, in one flat buffer, the same on
// every data rank; and, in mode fp8, the maxima of the operands of its products, which move the same way. See
// [Note: running statistics], and [Note: fp8] in runtime/base/fp8.h.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parallel/layout/batch_layout.h"
#include "parallel/layout/stage_map.h"
#include "parallel/mesh/mesh_groups.h"
#include "runtime/block.h"
#include "runtime/context.h"

namespace trireme {

/// How a statistic moves.
enum class StatisticRule : std::uint8_t {
  kAverage,  // [Note: running statistics]
  kMaxima,   // of an fp8 operand
};

/// True where the block has any in this precision.
bool has_statistics(const Block& block, const Precision& precision);

class StatisticStore {
 public:
  /// Makes the initial values. Throws Error(kInvalidInput) for a name that two statistics have, and in mode
  /// fp8 for blocks without an fp8 product.
  StatisticStore(const Context& ctx, const BlockList& blocks, const BatchLayout& batch,
                 const MeshGroups& groups, const StageMap& stages);

  Tensor value(int unit, StatisticRef ref) const;
  /// The target of a local micro-batch's sample of the step.
  Tensor sample(int unit, StatisticRef ref, int micro_batch) const;
  /// Of an fp8 operand; micro_batch -1: without a sample. Nothing for a weight that is in no fp8 product.
  std::optional<Fp8Maxima> maxima(int unit, ParamRef weight, Fp8Operand operand, int micro_batch) const;

  /// Moves the values by the samples of the step, unless `skip` is not 0. Collective over the data axis where
  /// the stage has any.
  void reduce(const Tensor& skip);
  /// Forgets samples of maxima, which otherwise grow until reduce(): after micro-batches that are no step.
  void discard_maxima() const;
  /// [] int32: fp8 operands of this stage that were clipped in the last step; undefined without fp8.
  const Tensor& num_clipped() const { return num_clipped_; }

  struct Entry {
    std::string name;  // full
    Shape shape;
    std::int64_t offset = 0;     // in whole()
    std::int64_t owned_at = -1;  // in values(); -1: another stage has it
    int stage = 0;
    StatisticRule rule = StatisticRule::kAverage;
  };
  /// Those of all blocks, in order, whichever stage has them.
  const std::vector<Entry>& entries() const { return entries_; }
  /// Those of this stage, fp32; undefined where it has none.
  const Tensor& values() const { return values_; }
  /// Those of all stages in host memory, padded with zeros to whole norm blocks; empty where there are none.
  /// Collective over the pipeline axis.
  std::vector<float> whole() const;

 private:
  /// Neighbours of one stage.
  struct Piece {
    int stage = 0;
    std::int64_t first = 0, last = 0;  // in whole()
  };
  /// Neighbours that move alike.
  struct Run {
    std::int64_t first = 0, last = 0;
    StatisticRule rule = StatisticRule::kAverage;
    float momentum = 0.0f;
  };
  const Entry& entry(int unit, StatisticRef ref) const;
  void lay_out(const BlockList& blocks, const StageMap& stages);
  /// Adds the entry of a statistic that `stage` has.
  void add(Entry entry, float momentum, int stage);
  void add_maxima(const Block& block, int unit, int stage);
  /// Gives an entry of this stage its place.
  void own(Entry& entry, float momentum);
  void move_average(const Run& run, const Tensor& all, const Tensor& skip) const;
  void fill(const BlockList& blocks);

  const Context ctx_;
  const BatchLayout batch_;
  const MeshGroups groups_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> first_of_unit_;
  std::map<std::pair<int, int>, std::size_t> maxima_of_;  // by unit and ParamRef::index, of kInput
  std::vector<Piece> pieces_;
  std::vector<Run> runs_;         // in values()
  std::int64_t num_elems_ = 0;    // of all stages, without padding at the end
  std::int64_t owned_elems_ = 0;  // of this stage, the same way
  Tensor values_;
  Tensor samples_;  // [local micro-batches, owned_elems]; of maxima the first element of each
  Tensor num_clipped_;
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
  std::optional<Fp8Maxima> maxima(ParamRef weight, Fp8Operand operand) override {
    return store_.maxima(unit_, weight, operand, micro_batch_);
  }

 private:
  const StatisticStore& store_;
  const int unit_, micro_batch_;
};

}  // namespace trireme
