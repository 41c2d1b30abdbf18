// The two ends of what is computed in chunks: copies of what all chunks read, and the sum of what they
// return. See [Note: tensor chunks] in runtime/parameter_slice.h.
#pragma once

#include <functional>
#include <vector>

#include "runtime/context.h"
#include "runtime/tensor_axis.h"

namespace trireme::ops {

/// Those that this rank computes.
ChunkRange own_chunks(const Context& ctx, int chunks);

/// x, in the dtype of linear layers, for each chunk of `range`; no memory is copied. Backward takes one fp32
/// gradient of each, adds them in the tree over all chunks, and returns the sum in the dtype of x. Of a
/// sharded sequence x is a shard, and chunks get all rows, of which ops that save them keep the shard.
std::vector<Tensor> copy_to_chunks(Context& ctx, const Tensor& x, const ChunkRange& range);

/// Adds what chunks return, in the order of the chunks, as they come: of n partial sums it holds
/// log2(n) + 1.
class ChunkSum {
 public:
  explicit ChunkSum(const ChunkRange& range) : range_(range) {}
  /// Of the next chunk: fp32.
  void add(Context& ctx, const Tensor& partial);
  /// The sum over all chunks, in the dtype of linear layers; of a sharded sequence, this rank's shard of it.
  /// Backward gives its gradient to every chunk, in that dtype. Collective over the tensor axis.
  Tensor finish(Context& ctx);

 private:
  struct Entry {
    int level = 0;  // of 2^level chunks
    Tensor sum;
  };
  const ChunkRange range_;
  int added_ = 0;
  std::vector<Entry> stack_;
  std::vector<ValueId> partials_;
};

/// The sum over all chunks of compute(input, chunk), a partial sum in fp32; of a sharded sequence from shard
/// to shard. Each chunk draws random numbers
/// with an op number of its own, whoever computes it: `compute` draws at most once.
Tensor sum_over_chunks(Context& ctx, const Tensor& input, int chunks,
                       const std::function<Tensor(Tensor input, int chunk)>& compute);

}  // namespace trireme::ops
