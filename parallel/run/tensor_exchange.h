// The tensor axis in a step: sums over a block's chunks, and shards of a sequence.
//
// [Note: sums of chunks] A tensor rank has a complete subtree of the tree over all chunks. The ranks' partial
// sums, added pairwise in order, are the rest of the tree, so the additions are the same on every number of
// ranks. Each rank adds the same piece of all partial sums, and gets the other pieces of the sum: an
// all-to-all and an all-gather, the bytes of an all-reduce. If ranks share the sequence, each keeps its
// piece, which is its shard, and the all-gather runs where all rows are read. In a plan every call is a
// separate action (SumChunks, ReduceScatterSequence, GatherSequence), after the Forward, Recompute or
// Backward that makes it.
#pragma once

#include <deque>

#include "parallel/comm/communicator.h"
#include "parallel/plan/action.h"
#include "runtime/tensor_axis.h"

namespace trireme {

class TensorExchange final : public TensorAxis {
 public:
  /// `places`: the tensor axis; outlives this.
  TensorExchange(Communicator& places, bool shards_sequence)
      : places_(places), shards_sequence_(shards_sequence) {}

  int rank() const override { return places_.rank(); }
  int size() const override { return places_.size(); }
  bool shards_sequence() const override { return shards_sequence_; }
  ChunkRange own_chunks(int chunks) const override;
  void sum_partials(Context& ctx, const Tensor& partial) override;
  Tensor gather_partials(Context& ctx, const Tensor& own) override;
  Tensor scatter_sum(Context& ctx, const Tensor& partial) override;
  Tensor gather_rows(Context& ctx, const Tensor& shard) override;

  /// Matches an action with the oldest unmatched call. Throws if the block made another call or none.
  void settle(ActionKind kind);
  /// Throws if a block has made calls that are no actions of the plan.
  void check_settled() const;
  /// Drops the calls of blocks that ran outside a plan.
  void forget_calls() { unsettled_.clear(); }

 private:
  /// Adds this rank's piece of all ranks' partial sums into `sum`, [elements / places].
  void sum_own_piece(Context& ctx, const Tensor& partial, const Tensor& pieces, const Tensor& sum);

  Communicator& places_;
  const bool shards_sequence_;
  std::deque<TensorCall> unsettled_;
};

}  // namespace trireme
