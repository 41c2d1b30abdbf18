// The ranks that share the chunks of a model, as an op sees them.
//
// [Note: sequence shards] Between the products that chunks share, a transformer works row by row: norms,
// dropout, the residual stream. With sequence parallelism (Korthikanti et al. 2022) the tensor ranks share
// these rows as well. Of a stream [B, T, C] each of t ranks has a shard [B, T / t, C]: of its B T rows the
// r-th part, one row behind the other, whatever their sample. So shards are contiguous in the whole, and an
// all-gather or a reduce-scatter moves them without a copy. In place of each sum over the axis come a
// reduce-scatter, which leaves a rank the sum of its rows, and an all-gather in front of what reads all rows.
// Backward has the same the other way round, and one all-gather more: of what a product has read only the
// shard is kept, and gathered again for the gradient of the weight.
//
// [Note: row groups] Gradients of a norm's parameters are sums over rows. Of a model in G chunks the R rows
// of a micro-batch form G groups, from g R / G on, rounded down. Each is summed on its own, and the groups
// are added in one binary tree. So who has which rows decides no bit, as long as a rank has whole groups.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor.h"

namespace trireme {

struct Context;

/// Chunks [first, first + count) of those that a block is cut into.
struct ChunkRange {
  int first = 0, count = 1;
};

/// What an op has the ranks of the axis do together.
enum class TensorCall : std::uint8_t {
  kSum,         // sum_partials() and gather_partials()
  kScatterSum,  // scatter_sum()
  kGatherRows,  // gather_rows()
};

/// Those of each forward of a block, and of each backward, in order.
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
  /// Of this rank, and of how many.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether the rows of the residual stream are shared: [Note: sequence shards].
  virtual bool shards_sequence() const = 0;
  /// Those that this rank computes: a complete subtree of the tree over `chunks`.
  virtual ChunkRange own_chunks(int chunks) const = 0;
  /// `partial`, fp32, is the sum over this rank's chunks: replaces it by the sum over all ranks', which is
  /// the rest of the tree. Collective over the axis.
  virtual void sum_partials(Context& ctx, const Tensor& partial) = 0;
  /// `own`, fp32, of every rank: [ranks * elements], in the order of their chunks. In a plan it is a sum like
  /// sum_partials(). Collective over the axis.
  virtual Tensor gather_partials(Context& ctx, const Tensor& own) = 0;
  /// sum_partials() of which this rank gets its shard, in memory of its own: [B, T, C] -> [B, T / t, C],
  /// fp32. Writes `partial`. Collective over the axis. Throws Error(kInvalidInput) where t does not divide T.
  virtual Tensor scatter_sum(Context& ctx, const Tensor& partial) = 0;
  /// All ranks' shards: [B, T / t, C] -> [B, T, C]. Collective over the axis.
  virtual Tensor gather_rows(Context& ctx, const Tensor& shard) = 0;
};

/// The shard that one of `ranks` has of a stream [B, T, C]. Throws Error(kInvalidInput) where they do not
/// divide T.
Shape shard_shape(const Shape& stream, int ranks);
/// The stream that a shard is of.
Shape stream_shape(const Shape& shard, int ranks);

}  // namespace trireme
