// Gradients of one rank: leaves written by backward, partial sums over micro-batches, and the exchange that
// finishes the sum over all ranks.
//
// Canonical (see [Note: canonical reduction]), reducing once a step: complete subtrees of this rank's run are
// joined at once, and the partial sums left are exchanged by all-to-all and added in tree order on the rank
// that owns the piece; without ZeRO the pieces are gathered again. A leaf lives only while its block's
// backward runs, so a run of L = 2^k micro-batches keeps k buffers of the model's size and one leaf of a
// block's. Canonical, reducing every micro-batch: each leaf is exchanged as it is, and every rank runs the
// binary counter on buffers of its piece's size. Leaves are then only staging for the exchange and are
// counted as communication. Fast: one buffer, accumulated in place, and the library's all-reduce or
// reduce-scatter.
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
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/layout/batch_layout.h"
#include "parallel/layout/model_layout.h"
#include "parallel/layout/sharding.h"
#include "parallel/reduce/exchange_chunks.h"
#include "parallel/reduce/reduction_tree.h"
#include "runtime/context.h"

namespace trireme {

enum class Reduction : std::uint8_t { kCanonical, kFast };

struct GradAccumulatorOptions {
  Reduction reduction = Reduction::kCanonical;
  ShardedState sharded;                  // whose gradients are wanted: the whole, or pieces
  bool reduce_each_micro_batch = false;  // wants Assignment::kStrided
  bool cut_exchanges = false;            // see [Note: chunked exchange]; for groups that span machines
  DType dtype = DType::kFloat32;         // of everything but the leaf under way; 16-bit excludes kFast
};

class GradAccumulator {
 public:
  GradAccumulator(const ModelLayout& layout, const BatchLayout& batch, const GradAccumulatorOptions& options,
                  Communicator& comm);

  /// Opens the buffers of `unit`'s buckets for the backward of a local micro-batch.
  void begin(Context& ctx, int unit, int micro_batch);
  /// Where the gradient of one of `unit`'s parameters goes, between begin and end.
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
  /// Finishes all exchanges and adds the uses of tied parameters. Afterwards gradient(group) is complete, of
  /// the groups that this rank's stage owns.
  void finish(Context& ctx);
  /// What this rank owns of a group's gradient: [num_elems] without ZeRO, else its piece.
  Tensor gradient(int group) const;
  /// Drops the buffers of a group.
  void drop(int group);

 private:
  struct Bucket {
    Tensor leaf;                // of the backward under way; [padded] fp32 until it ends
    std::vector<bool> written;  // by slot, in the leaf
    ReductionStack stack;
    std::vector<Tensor> sums;  // of the stack's entries
  };
  struct Exchange {
    int bucket = 0;
    int micro_batch = -1;
    std::vector<Tensor> sources, received;  // by round
    std::vector<Chunk> chunks;              // canonical
    std::vector<Work> works;                // by chunk, and by round in it
  };

  MemoryCategory leaf_category() const {
    return each_ ? MemoryCategory::kCommunication : MemoryCategory::kGradients;
  }
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
  void push(Context& ctx, Bucket& bucket, const Tensor& sum, Subtree subtree);
  Exchange exchange_of(Context& ctx, int bucket, int micro_batch);
  std::vector<Chunk> chunks_of(int bucket) const;
  void start_gather_chunk(int bucket, const Chunk& chunk);
  void finish_exchange(Context& ctx);
  /// What the sum of an exchange of the whole step is left as.
  enum class Sums : std::uint8_t { kPieces, kGathered };
  void finish_step(Context& ctx, Exchange& exchange, Sums sums);
  /// Adds this rank's piece of a chunk that has arrived, where it stays.
  void sum_chunk(Context& ctx, const Exchange& exchange, const Chunk& chunk,
                 const std::vector<Addition>& additions);
  void finish_round(Context& ctx, Exchange& exchange);
  void finish_fast(Context& ctx, Exchange& exchange);
  /// Completes the sums over micro-batches and the data axis.
  void complete_sums(Context& ctx);
  void add_uses(Context& ctx, int group);
  /// Whether the bucket's sum is gathered with the group's other uses only, from pieces in the whole buffers.
  bool gathers_after_uses(int bucket) const;
  int owner_bucket(int group) const;
  void add_to_sum(Context& ctx, Bucket& bucket, const Tensor& gradient);
  /// Where this rank's piece of a chunk's sum stays once the ranks have exchanged theirs.
  Tensor home_of_piece(Context& ctx, int bucket, const Chunk& chunk);
  /// What this rank owns of a bucket's sum once all is done.
  Tensor owned(int bucket) const;
  Tensor piece_of(int bucket) const;
  const Tensor& sum_of(int bucket) const;
  /// What it has of it when uses are added.
  Tensor summed(int bucket) const { return gathers_after_uses(bucket) ? piece_of(bucket) : owned(bucket); }

  const ModelLayout& layout_;
  const BatchLayout batch_;
  const GradAccumulatorOptions options_;
  Communicator& comm_;
  const Sharding sharding_;                     // of the exchange, ZeRO or not
  const bool each_;                             // with one rank there is nothing to reduce each time
  std::vector<std::vector<Subtree>> partials_;  // by rank, when reducing once
  std::size_t num_rounds_ = 0;                  // most partial sums of any rank
  std::vector<Bucket> buckets_;
  std::deque<Exchange> exchanges_;
  std::vector<Work> gathers_;
  std::vector<Work> tied_;  // messages about uses
};

}  // namespace trireme
