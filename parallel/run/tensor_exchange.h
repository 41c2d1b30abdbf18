// The tensor axis in a step: sums of what the chunks of a block return, and shards of a sequence.
//
// [Note: sums of chunks] A place has a complete subtree of the tree over all chunks, so the places' partial
// sums, added pairwise in their order, are the rest of the tree: the same additions on every number of ranks.
// Each place adds the same piece of all partial sums, and gets the other pieces of the sum: an all-to-all and
// an all-gather, the bytes of an all-reduce. Where places share the sequence each keeps its piece, which is
// its shard, and the all-gather comes where all rows are read. In a plan every call is an action of its own
// (SumChunks, ReduceScatterSequence, GatherSequence), behind the Forward, Recompute or Backward that makes
// it.
#pragma once

#include <deque>

#include "parallel/comm/communicator.h"
#include "parallel/plan/action.h"
#include "runtime/tensor_axis.h"

namespace trireme {

class TensorExchange final : public TensorAxis {
 public:
  /// Of the ranks of the tensor axis; `places` outlives this.
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

  /// The action of a call that was made. Throws where a block has made another, or none.
  void settle(ActionKind kind);
  /// Throws where a block has made calls that are no actions of the plan.
  void check_settled() const;
  /// Of blocks that ran outside of a plan.
  void forget_calls() { unsettled_.clear(); }

 private:
  /// All places' pieces of what this one has, added into `sum`, [elements / places].
  void sum_own_piece(Context& ctx, const Tensor& partial, const Tensor& pieces, const Tensor& sum);

  Communicator& places_;
  const bool shards_sequence_;
  std::deque<TensorCall> unsettled_;
};

}  // namespace trireme
