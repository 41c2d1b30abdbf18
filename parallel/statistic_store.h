// The running statistics of all blocks: one flat buffer, whole on every rank. See [Note: running statistics].
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/mesh.h"
#include "runtime/block.h"
#include "runtime/context.h"

namespace trireme {

class StatisticStore {
 public:
  /// Makes the initial values. Throws Error(kInvalidInput) for a name that two statistics have.
  StatisticStore(const Context& ctx, const BlockList& blocks, const BatchLayout& batch,
                 std::shared_ptr<Communicator> comm);

  Tensor value(int unit, StatisticRef ref) const;
  /// Where a local micro-batch's sample of the step goes.
  Tensor sample(int unit, StatisticRef ref, int micro_batch) const;

  /// Moves all values by the samples of the step, unless `skip` is not 0. Collective where there are any.
  void move(const Tensor& skip);

  struct Entry {
    std::string name;  // full
    Shape shape;
    std::int64_t offset = 0;  // in values()
  };
  const std::vector<Entry>& entries() const { return entries_; }
  /// All of them, fp32, padded with zeros to whole norm blocks; undefined where there are none.
  const Tensor& values() const { return values_; }

 private:
  /// Neighbours that move with one momentum.
  struct Run {
    std::int64_t first = 0, last = 0;
    float momentum = 0.0f;
  };
  const Entry& entry(int unit, StatisticRef ref) const;
  void lay_out(const BlockList& blocks);
  void fill(const BlockList& blocks);

  const Context ctx_;
  const BatchLayout batch_;
  const std::shared_ptr<Communicator> comm_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> first_of_unit_;
  std::vector<Run> runs_;
  std::int64_t num_elems_ = 0;  // without padding
  Tensor values_;
  Tensor samples_;  // [local micro-batches, num_elems]
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
