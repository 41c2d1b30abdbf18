// Conversions between the whole residual stream and this rank's sequence shard: see [Note: sequence shards]
// in runtime/tensor_axis.h. Without sequence shards these functions return their argument; to_whole() returns
// a cast of it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/context.h"
#include "runtime/saved_tensor.h"
#include "runtime/tensor_axis.h"

namespace trireme::ops {

bool shards_sequence(const Context& ctx);

/// The sum over the tensor ranks of their `partial` [B, T, C], fp32, which is overwritten. With a sharded
/// sequence, this rank's shard of the sum. Nothing is recorded. Collective over the tensor axis.
Tensor summed_over_ranks(Context& ctx, const Tensor& partial);

/// All rows, gathered from the shards. Nothing is recorded. Collective over the tensor axis.
Tensor all_rows(Context& ctx, const Tensor& shard);
/// Saves `shard`, which is gathered again when a node takes its saved tensor.
std::shared_ptr<RebuiltTensor> gathered_again(const Tensor& shard);

/// This rank's shard, in new memory, of a `stream` that every rank has computed whole. Backward gathers the
/// rows of the gradient.
Tensor to_shard(Context& ctx, const Tensor& stream);
/// All rows of a stream, in the dtype of linear layers, for a linear layer that every rank computes whole.
/// Backward takes this rank's rows of the gradient. If the layer has saved the rows, backward gathers them
/// again.
Tensor to_whole(Context& ctx, const Tensor& shard);

/// Part of a shard, for ops that count elements within samples: elements [first, first + elems) of each of
/// `samples` samples, stored at `offset` of the shard.
struct ShardPart {
  std::int64_t offset = 0;
  std::int64_t sample = 0;  // the first one, counted in the micro-batch
  std::int64_t samples = 1;
  std::int64_t first = 0, elems = 0;
};
/// The parts of this rank's shard. Without shards, one part with all samples.
std::vector<ShardPart> parts_of(const Context& ctx, const Shape& shard);

}  // namespace trireme::ops
