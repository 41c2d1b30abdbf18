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
/// gradient of each, adds them in the tree over all chunks, and returns the sum in the dtype of x; what
/// linear layers add to the gradient is multiplied and summed for all chunks in one pass. Of a sharded
/// sequence x is a shard, and chunks get all rows, of which ops that save them keep the shard.
std::vector<Tensor> copy_to_chunks(Context& ctx, const Tensor& x, const ChunkRange& range);

/// What a block is cut into: see [Note: tensor chunks].
struct ChunkCut {
  int chunks = 1;
  int groups = 1;  // that the inner sums of a chunk are made in
};

/// The end of a chunk: a row-parallel linear layer.
struct ChunkOutput {
  Tensor x;
  ParamRef weight, bias;  // bias: of the first chunk alone
};

/// The sum over all chunks of the layers that compute(input, chunk) returns; of a sharded sequence from shard
/// to shard. Each chunk draws random numbers with an op number of its own, whoever computes it: `compute`
/// draws at most once.
Tensor sum_over_chunks(Context& ctx, const Tensor& input, const ChunkCut& cut,
                       const std::function<ChunkOutput(Tensor input, int chunk)>& compute);

}  // namespace trireme::ops
