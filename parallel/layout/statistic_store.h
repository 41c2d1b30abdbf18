// The running statistics of the blocks of this rank's stage, in one flat buffer that is equal on every data
// rank. In mode fp8 the buffer also contains the maxima of product operands, which are updated in the same
// way. See [Note: running statistics], and [Note: fp8] in runtime/base/fp8.h.
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

/// The update rule of a statistic.
enum class StatisticRule : std::uint8_t {
  kAverage,  // [Note: running statistics]
  kMaxima,   // of an fp8 operand
};

/// True if the block has statistics in this precision.
bool has_statistics(const Block& block, const Precision& precision);

class StatisticStore {
 public:
  /// Initialises the values. Throws Error(kInvalidInput) if two statistics have one name, and in mode fp8 for
  /// blocks without an fp8 product.
  StatisticStore(const Context& ctx, const BlockList& blocks, const BatchLayout& batch,
                 const MeshGroups& groups, const StageMap& stages);

  Tensor value(int unit, StatisticRef ref) const;
  /// The buffer for the sample that a local micro-batch of the step contributes.
  Tensor sample(int unit, StatisticRef ref, int micro_batch) const;
  /// The maxima of an fp8 operand; micro_batch -1: without a sample. Empty for a weight in no fp8 product.
  std::optional<Fp8Maxima> maxima(int unit, ParamRef weight, Fp8Operand operand, int micro_batch) const;

  /// Updates the values from the samples of the step, unless `skip` is not 0. Collective over the data axis
  /// if the stage has statistics.
  void reduce(const Tensor& skip);
  /// Clears samples of maxima, which otherwise grow until reduce(). Call it after micro-batches outside a
  /// step.
  void discard_maxima() const;
  /// [] int32: fp8 operands of this stage that were clipped in the last step; undefined without fp8.
  const Tensor& num_clipped() const { return num_clipped_; }

  struct Entry {
    std::string name;  // full
    Shape shape;
    std::int64_t offset = 0;     // in whole()
    std::int64_t owned_at = -1;  // in values(); -1: another stage owns it
    StatisticRule rule = StatisticRule::kAverage;
  };
  /// Statistics of all blocks and stages, in order.
  const std::vector<Entry>& entries() const { return entries_; }
  /// Statistics of this stage, fp32; undefined if it has none.
  const Tensor& values() const { return values_; }
  /// Statistics of all stages in host memory, padded with zeros to whole norm blocks; empty if there are
  /// none. Collective over the pipeline axis.
  std::vector<float> whole() const;

 private:
  /// Consecutive statistics of one stage.
  struct Piece {
    int stage = 0;
    std::int64_t first = 0, last = 0;  // in whole()
  };
  /// Consecutive statistics with the same update rule.
  struct Run {
    std::int64_t first = 0, last = 0;
    StatisticRule rule = StatisticRule::kAverage;
    float momentum = 0.0f;
  };
  const Entry& entry(int unit, StatisticRef ref) const;
  void lay_out(const BlockList& blocks, const StageMap& stages);
  /// Adds the entry of a statistic of `stage`.
  void add(Entry entry, float momentum, int stage);
  void add_maxima(const Block& block, int unit, int stage);
  /// Assigns an entry of this stage its offset in values().
  void own(Entry& entry, float momentum);
  void move_average(const Run& run, const Tensor& all, const Tensor& skip) const;
  void fill(const BlockList& blocks);

  const Context ctx_;
  const BatchLayout batch_;
  const MeshGroups groups_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> first_of_unit_;
  std::map<std::pair<int, int>, std::size_t> maxima_of_;  // (unit, ParamRef::index) -> entry of kInput
  std::vector<Piece> pieces_;
  std::vector<Run> runs_;         // in values()
  std::int64_t num_elems_ = 0;    // of all stages, without padding at the end
  std::int64_t owned_elems_ = 0;  // of this stage, likewise
  Tensor values_;
  Tensor samples_;  // [local micro-batches, owned_elems]; for maxima, the first element of each
  Tensor num_clipped_;
};

/// Codes of a unit's weights, by ParamRef::index.
using WeightCodes = std::map<int, Fp8Codes>;

/// A unit's statistics, as its block uses them; micro_batch -1: without samples; `kept` null: codes of
/// weights are not kept.
class UnitStatistics final : public StatisticResolver {
 public:
  UnitStatistics(const StatisticStore& store, int unit, int micro_batch, WeightCodes* kept = nullptr)
      : store_(store), unit_(unit), micro_batch_(micro_batch), kept_(kept) {}
  Tensor value(StatisticRef ref) override { return store_.value(unit_, ref); }
  Tensor sample(StatisticRef ref) override {
    return micro_batch_ >= 0 ? store_.sample(unit_, ref, micro_batch_) : Tensor();
  }
  std::optional<Fp8Maxima> maxima(ParamRef weight, Fp8Operand operand) override {
    return store_.maxima(unit_, weight, operand, micro_batch_);
  }
  Fp8Codes* kept_codes(ParamRef weight) override {
    return kept_ != nullptr ? &(*kept_)[weight.index] : nullptr;
  }

 private:
  const StatisticStore& store_;
  const int unit_, micro_batch_;
  WeightCodes* const kept_;
};

}  // namespace trireme
