// The tensor axis in a step: sums of what the chunks of a block return.
//
// [Note: sums of chunks] A place has a complete subtree of the tree over all chunks, so the places' partial
// sums, added pairwise in their order, are the rest of the tree: the same additions on every number of ranks.
// Each place adds the same piece of all partial sums, and gets the other pieces of the sum: an all-to-all and
// an all-gather, the bytes of an all-reduce. In a plan every sum is an action of its own (SumChunks), behind
// the Forward, Recompute or Backward that makes it.
#pragma once

#include "parallel/comm/communicator.h"
#include "runtime/tensor_axis.h"

namespace trireme {

class TensorExchange final : public TensorAxis {
 public:
  /// Of the ranks of the tensor axis; outlives this.
  explicit TensorExchange(Communicator& places) : places_(places) {}

  ChunkRange own_chunks(int chunks) const override;
  void sum_partials(Context& ctx, const Tensor& partial) override;
  Tensor gather_partials(Context& ctx, const Tensor& own) override;

  /// The action of a sum that was made. Throws where a block has made none.
  void settle_sum();
  /// Throws where a block has made sums that are no actions of the plan.
  void check_settled() const;

 private:
  Communicator& places_;
  int unsettled_ = 0;
};

}  // namespace trireme
