// The residual stream between sums over the tensor axis, of which a rank may have a shard: see
// [Note: sequence shards] in runtime/tensor_axis.h. Without sequence shards all of these return what they
// get, to_whole() a cast of it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/context.h"
#include "runtime/saved_tensor.h"
#include "runtime/tensor_axis.h"

namespace trireme::ops {

bool shards_sequence(const Context& ctx);

/// The sum over the tensor ranks of their `partial` [B, T, C], fp32, which is written; of a sharded sequence
/// this rank's shard of it. Nothing is recorded. Collective over the tensor axis.
Tensor summed_over_ranks(Context& ctx, const Tensor& partial);

/// All rows of a shard. Nothing is recorded. Collective over the tensor axis.
Tensor all_rows(Context& ctx, const Tensor& shard);
/// `shard`, to be gathered when a node takes what it has saved.
std::shared_ptr<RebuiltTensor> gathered_again(const Tensor& shard);

/// This rank's shard of `stream`, which every rank has computed whole, in memory of its own. Backward gathers
/// the gradient's rows.
Tensor to_shard(Context& ctx, const Tensor& stream);
/// All rows of a stream, in the dtype of linear layers, for a linear layer that every rank computes whole.
/// Backward takes this rank's rows of the gradient, and gathers the rows again where the layer has saved
/// them.
Tensor to_whole(Context& ctx, const Tensor& shard);

/// Elements [first, first + elems) of each of `samples` samples, which lie at `offset` of a shard: what a
/// shard has of the micro-batch, cut where an op that counts elements within samples needs it.
struct ShardPart {
  std::int64_t offset = 0;
  std::int64_t sample = 0;  // the first one, counted in the micro-batch
  std::int64_t samples = 1;
  std::int64_t first = 0, elems = 0;
};
/// Of a shard of this rank; of all samples, where nothing is sharded.
std::vector<ShardPart> parts_of(const Context& ctx, const Shape& shard);

}  // namespace trireme::ops
