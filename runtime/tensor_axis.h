// The tensor-parallel ranks that share the chunks of a model, as an op sees them.
//
// [Note: sequence shards] Between the products of the chunks, a transformer works row by row: norms, dropout,
// the residual stream. With sequence parallelism (Korthikanti et al. 2022) the tensor ranks also share these
// rows. Each of t ranks has a shard [B, T / t, C] of a stream [B, T, C]: the r-th contiguous part of its B T
// rows, whatever their sample. So shards are contiguous in the whole, and an all-gather or a reduce-scatter
// moves them without a copy. Each sum over the axis becomes a reduce-scatter, which leaves a rank the sum of
// its rows, and an all-gather before the ops that read all rows. Backward has the transposed calls, and one
// more all-gather: the input of a product is saved as its shard only, and gathered again for the gradient of
// the weight.
//
// [Note: row groups] Gradients of a norm's parameters are sums over rows. In a model in G chunks the R rows
// of a micro-batch form G groups; group g starts at row g R / G, rounded down. Each group is summed on its
// own, and the groups are added in one binary tree. So the distribution of rows over ranks changes no bit, as
// long as a rank has whole groups.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor.h"

namespace trireme {

struct Context;

/// Chunks [first, first + count) of a block.
struct ChunkRange {
  int first = 0, count = 1;
};

/// The collective calls of an op over the tensor axis.
enum class TensorCall : std::uint8_t {
  kSum,         // sum_partials() and gather_partials()
  kScatterSum,  // scatter_sum()
  kGatherRows,  // gather_rows()
};

/// The calls of one forward of a block, and of one backward, in order.
struct TensorCalls {
  std::vector<TensorCall> forward, backward;

  static TensorCalls sums(int forward, int backward) {
    return {std::vector(static_cast<std::size_t>(forward), TensorCall::kSum),
            std::vector(static_cast<std::size_t>(backward), TensorCall::kSum)};
  }
  bool operator==(const TensorCalls&) const = default;
};

/// See [Note: tensor chunks].
class TensorAxis {
 public:
  virtual ~TensorAxis() = default;
  /// Index of this rank on the axis, and the number of ranks.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True if the rows of the residual stream are sharded: [Note: sequence shards].
  virtual bool shards_sequence() const = 0;
  /// The chunks of this rank: a complete subtree of the tree over `chunks`.
  virtual ChunkRange own_chunks(int chunks) const = 0;
  /// Replaces `partial`, fp32, the sum over this rank's chunks, by the sum over all ranks: the rest of the
  /// tree. Collective over the axis.
  virtual void sum_partials(Context& ctx, const Tensor& partial) = 0;
  /// The `own`, fp32, of every rank: [ranks * elements], in the order of their chunks. A plan lists it as a
  /// sum, like sum_partials(). Collective over the axis.
  virtual Tensor gather_partials(Context& ctx, const Tensor& own) = 0;
  /// Like sum_partials(), but returns only this rank's shard, in new memory: [B, T, C] -> [B, T / t, C],
  /// fp32. Overwrites `partial`. Collective over the axis. Throws Error(kInvalidInput) if t does not divide
  /// T.
  virtual Tensor scatter_sum(Context& ctx, const Tensor& partial) = 0;
  /// The shards of all ranks: [B, T / t, C] -> [B, T, C]. Collective over the axis.
  virtual Tensor gather_rows(Context& ctx, const Tensor& shard) = 0;
};

/// Shape of one rank's shard of a stream [B, T, C]. Throws Error(kInvalidInput) if `ranks` does not divide T.
Shape shard_shape(const Shape& stream, int ranks);
/// Shape of the stream, given the shape of one shard.
Shape stream_shape(const Shape& shard, int ranks);

}  // namespace trireme
