// Gradients of one rank: leaves written by backward, partial sums over micro-batches, and the exchange that
// completes the sum over all ranks. A strategy does the sums: see reduce/grad_reduction.h. A leaf exists only
// while its block's backward runs.
//
// With a 16-bit `dtype` a leaf is still computed in fp32, and rounded once when its backward ends. All later
// additions and exchanges use 16 bits.
//
// After the exchange a rank holds: without ZeRO the whole gradient; in stage 1 its piece within the whole
// buffer (stage 1 keeps gradients unsharded, as in the paper); from stage 2 on only its piece.
//
// The uses of a tied parameter are added as this rank's pieces, in block order, and gathered once if the
// whole gradient is needed.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "parallel/layout/model_layout.h"
#include "parallel/reduce/grad_reduction.h"

namespace trireme {

class GradAccumulator {
 public:
  GradAccumulator(const ModelLayout& layout, const BatchLayout& batch, const GradReductionOptions& options,
                  const DataAxis& axis);

  /// Allocates the buffers of `unit`'s buckets for the backward of a local micro-batch.
  void begin(Context& ctx, int unit, int micro_batch);
  /// The gradient target of one of `unit`'s parameters, between begin() and end(); none for a frozen
  /// parameter.
  GradientTarget target(const ParamUse& use);
  /// Ends the backward: parameters without a gradient become zero, and complete subtrees are joined.
  void end(Context& ctx, int unit, int micro_batch);
  /// A complete leaf: the gradients of one backward (of several blocks in a merged group).
  struct Leaf {
    int bucket = 0;
    Tensor gradient;  // [padded], of options.dtype
  };
  /// Replaces end() for inspecting gradients: returns the leaves that the backward of `unit` completes. Adds
  /// nothing to any sum. Allocates the same memory as end(), at the same time.
  std::vector<Leaf> take_leaves(Context& ctx, int unit);

  /// Call before start_reduce() on a data axis of two levels: starts summing `unit`'s buckets within the
  /// host. Collective over the host's ranks.
  void start_reduce_in_host(Context& ctx, int unit, int micro_batch);
  /// Starts the exchange of `unit`'s buckets: for `micro_batch`, or for the whole step if it is -1.
  /// Collective.
  void start_reduce(Context& ctx, int unit, int micro_batch);
  /// Sends the gradient of a use to the stage that owns the parameter, where finish() adds it: this rank's
  /// piece of the sum over the data axis (fast and not sharded: the whole sum). All reductions of this rank
  /// must have been started. `comm` is the pipeline axis. See [Note: tied over stages].
  void send_use(Context& ctx, int bucket, Communicator& comm, int stage);
  void receive_use(Context& ctx, int bucket, Communicator& comm, int stage);
  /// Without sharding: starts gathering the sums of `unit`, whose exchange was started. Covers the groups
  /// that it declares, with all their uses. Collective.
  void start_gather(Context& ctx, int unit);
  /// On two levels, call after start_gather(): gathers within the host. With the library's sum, for which
  /// start_gather() does nothing, it covers all groups that `unit` uses. Collective over the host's ranks.
  void start_gather_in_host(Context& ctx, int unit);
  /// Finishes all exchanges and adds the uses of tied parameters. Afterwards gradient(group) is complete for
  /// the groups that this rank's stage owns.
  void finish(Context& ctx);
  /// This rank's part of a group's gradient: [num_elems] without ZeRO, else its piece.
  Tensor gradient(int group) const;
  /// Frees the buffers of a group.
  void drop(int group);

 private:
  /// True if a rank keeps only its piece of a complete sum.
  bool sharded() const { return options_.sharded.optimizer; }
  const ParamGroup& group_of(int bucket) const;
  /// True if the backward of `unit` is the last one to write the bucket. See [Note: merged groups].
  bool completes(int bucket, int unit) const {
    return layout_.buckets[static_cast<std::size_t>(bucket)].unit == unit;
  }
  Tensor new_leaf(Context& ctx, const ParamGroup& group) const;
  /// Zeroes parameters of `unit` without a gradient.
  void fill_unwritten(Context& ctx, int bucket, int unit);
  /// Converts a complete leaf to options_.dtype.
  void round_leaf(Context& ctx, int bucket);
  std::vector<Chunk> chunks_of(int bucket) const;
  void start_gather_chunk(int bucket, const Chunk& chunk);
  Tensor chunk_of_sum(int bucket, const Chunk& chunk) const {
    return sum_of(bucket).slice(chunk.first, {chunk.num_elems});
  }
  /// Adds an exchange for a bucket.
  GradExchange& open_exchange(int bucket, int micro_batch);
  /// The step after an exchange, if the whole gradient is needed: keep pieces, or start a gather.
  enum class Then : std::uint8_t { kPieces, kGather };
  void finish_exchange(Context& ctx, Then then = Then::kPieces);
  /// Completes the sums over micro-batches and over the data axis.
  void complete_sums(Context& ctx);
  void add_uses(Context& ctx, int group);
  /// True if the bucket's sum is gathered only after the group's other uses are added, from pieces in the
  /// whole buffers.
  bool gathers_after_uses(int bucket) const;
  int owner_bucket(int group) const;
  /// This rank's part of a bucket's complete sum.
  Tensor owned(int bucket) const;
  Tensor piece_of(int bucket) const;
  const Tensor& sum_of(int bucket) const;
  /// This rank's part of the sum at the time uses are added.
  Tensor summed(int bucket) const { return gathers_after_uses(bucket) ? piece_of(bucket) : owned(bucket); }

  const ModelLayout& layout_;
  const GradReductionOptions options_;
  const DataAxis axis_;
  const Sharding sharding_;  // of the exchange, with or without ZeRO
  const std::unique_ptr<GradReduction> reduction_;
  std::vector<GradSum> buckets_;
  std::deque<GradExchange> exchanges_;
  struct ChunkGather {
    int bucket = 0;
    Chunk chunk;
    Work work;
  };
  std::vector<ChunkGather> gathers_;
  std::vector<Work> tied_;  // messages with gradients of uses
};

}  // namespace trireme
