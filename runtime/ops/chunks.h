// Start and end of a computation in chunks: copies of the input that all chunks read, and the sum of their
// results. See [Note: tensor chunks] in runtime/parameter_slice.h.
#pragma once

#include <functional>
#include <vector>

#include "runtime/context.h"
#include "runtime/tensor_axis.h"

namespace trireme::ops {

/// The chunks that this rank computes.
ChunkRange own_chunks(const Context& ctx, int chunks);

/// x, in the dtype of linear layers, for each chunk of `range`; no memory is copied. Backward takes one fp32
/// gradient per chunk, adds them in the tree over all chunks, and returns the sum in the dtype of x.
/// Gradients that come from linear layers are multiplied and summed for all chunks in one pass. With a
/// sharded sequence x is a shard, and chunks get all rows; ops that save them save the shard only.
std::vector<Tensor> copy_to_chunks(Context& ctx, const Tensor& x, const ChunkRange& range);

/// The cut of a block: see [Note: tensor chunks].
struct ChunkCut {
  int chunks = 1;
  int groups = 1;  // groups of the inner sums of each chunk
};

/// The end of a chunk: a row-parallel linear layer.
struct ChunkOutput {
  Tensor x;
  ParamRef weight, bias;  // bias: the first chunk only
};

/// The sum over all chunks of the layers that compute(input, chunk) returns. With a sharded sequence, input
/// and result are shards. Each chunk draws random numbers with its own op number, whatever rank computes it:
/// `compute` may draw at most once.
Tensor sum_over_chunks(Context& ctx, const Tensor& input, const ChunkCut& cut,
                       const std::function<ChunkOutput(Tensor input, int chunk)>& compute);

}  // namespace trireme::ops
