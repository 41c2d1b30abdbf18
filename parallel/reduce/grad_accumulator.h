// Gradients of one rank: leaves written by backward, partial sums over micro-batches, and the exchange that
// finishes the sum over all ranks. The sums are those of a strategy, see reduce/grad_reduction.h. A leaf
// lives only while its block's backward runs.
//
// With a 16-bit `dtype` a leaf is still computed in fp32, and rounded once when its backward ends: from then
// on everything that is added or exchanged holds 16 bits.
//
// What is left after the exchange: without ZeRO the whole gradient; in stage 1 this rank's piece inside of
// the whole buffer (as in the paper, where stage 1 keeps gradients unsharded); from stage 2 on the piece
// alone.
//
// The uses of a tied parameter are added as this rank's pieces, in block order, and gathered once where the
// whole gradient is wanted.
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

  /// Opens the buffers of `unit`'s buckets for the backward of a local micro-batch.
  void begin(Context& ctx, int unit, int micro_batch);
  /// Where the gradient of one of `unit`'s parameters goes, between begin and end: nowhere, of a frozen one.
  GradientTarget target(const ParamUse& use);
  /// Closes them: parameters without a gradient become zero, complete subtrees are joined.
  void end(Context& ctx, int unit, int micro_batch);
  /// A complete leaf: the gradients of one backward (of several blocks' in a merged group).
  struct Leaf {
    int bucket = 0;
    Tensor gradient;  // [padded], of options.dtype
  };
  /// In place of end(), to look at gradients: gives up the leaves that the backward of `unit` completes.
  /// Nothing is added to any sum. Allocates what end() does, when end() does.
  std::vector<Leaf> take_leaves(Context& ctx, int unit);

  /// On a data axis of two levels, before start_reduce(): starts to sum `unit`'s buckets inside of the host.
  /// Collective over its ranks.
  void start_reduce_in_host(Context& ctx, int unit, int micro_batch);
  /// Starts the exchange of `unit`'s buckets: of `micro_batch`, or of the whole step when it is -1.
  /// Collective.
  void start_reduce(Context& ctx, int unit, int micro_batch);
  /// Sends the gradient of a use, this rank's piece of the sum over the data axis (fast and not sharded: all
  /// of it), to the stage that owns the parameter, where finish() adds it. All reductions of this rank must
  /// have been started. `comm` is that of the pipeline axis. See [Note: tied over stages].
  void send_use(Context& ctx, int bucket, Communicator& comm, int stage);
  void receive_use(Context& ctx, int bucket, Communicator& comm, int stage);
  /// Not sharded: starts to give every rank all pieces of the sums of `unit`, whose exchange was started: of
  /// the groups that it declares, with all their uses. Collective.
  void start_gather(Context& ctx, int unit);
  /// On two levels, behind it: the same inside of the host. With the library's sum, which start_gather() has
  /// nothing to do for, of all groups that `unit` uses. Collective over the ranks of the host.
  void start_gather_in_host(Context& ctx, int unit);
  /// Finishes all exchanges and adds the uses of tied parameters. Afterwards gradient(group) is complete, of
  /// the groups that this rank's stage owns.
  void finish(Context& ctx);
  /// What this rank owns of a group's gradient: [num_elems] without ZeRO, else its piece.
  Tensor gradient(int group) const;
  /// Drops the buffers of a group.
  void drop(int group);

 private:
  /// Whether a rank has its piece alone of a sum that is complete.
  bool sharded() const { return options_.sharded.optimizer; }
  const ParamGroup& group_of(int bucket) const;
  /// Whether the backward of `unit` is the last that writes the bucket. See [Note: merged groups].
  bool completes(int bucket, int unit) const {
    return layout_.buckets[static_cast<std::size_t>(bucket)].unit == unit;
  }
  Tensor new_leaf(Context& ctx, const ParamGroup& group) const;
  /// Parameters of `unit` without a gradient get zeros.
  void fill_unwritten(Context& ctx, int bucket, int unit);
  /// Brings a complete leaf to options_.dtype.
  void round_leaf(Context& ctx, int bucket);
  std::vector<Chunk> chunks_of(int bucket) const;
  void start_gather_chunk(int bucket, const Chunk& chunk);
  Tensor chunk_of_sum(int bucket, const Chunk& chunk) const {
    return sum_of(bucket).slice(chunk.first, {chunk.num_elems});
  }
  /// A bucket whose exchange comes next.
  GradExchange& open_exchange(int bucket, int micro_batch);
  /// What an exchange leaves where the whole gradient is wanted: pieces, or a gather that has started.
  enum class Then : std::uint8_t { kPieces, kGather };
  void finish_exchange(Context& ctx, Then then = Then::kPieces);
  /// Completes the sums over micro-batches and the data axis.
  void complete_sums(Context& ctx);
  void add_uses(Context& ctx, int group);
  /// Whether the bucket's sum is gathered with the group's other uses only, from pieces in the whole buffers.
  bool gathers_after_uses(int bucket) const;
  int owner_bucket(int group) const;
  /// What this rank owns of a bucket's sum once all is done.
  Tensor owned(int bucket) const;
  Tensor piece_of(int bucket) const;
  const Tensor& sum_of(int bucket) const;
  /// What it has of it when uses are added.
  Tensor summed(int bucket) const { return gathers_after_uses(bucket) ? piece_of(bucket) : owned(bucket); }

  const ModelLayout& layout_;
  const GradReductionOptions options_;
  const DataAxis axis_;
  const Sharding sharding_;  // of the exchange, ZeRO or not
  const std::unique_ptr<GradReduction> reduction_;
  std::vector<GradSum> buckets_;
  std::deque<GradExchange> exchanges_;
  struct ChunkGather {
    int bucket = 0;
    Chunk chunk;
    Work work;
  };
  std::vector<ChunkGather> gathers_;
  std::vector<Work> tied_;  // messages about uses
};

}  // namespace trireme
