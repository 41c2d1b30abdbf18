// Canonical, once a step: complete subtrees of this rank's run of micro-batches are joined at once; the
// partial sums that are left are exchanged by all-to-all and added in tree order on the rank that owns the
// piece. A run of 2^k micro-batches keeps k buffers of the model's size and one leaf of a block's.
#include <algorithm>
#include <utility>

#include "parallel/reduce/grad_reduction.h"

namespace trireme {
namespace {

class OnceAStep final : public GradReduction {
 public:
  OnceAStep(const BatchLayout& batch, const GradReductionOptions& options, Communicator& comm)
      : GradReduction(batch, options, comm) {
    for (int r = 0; r < batch.data_ranks; ++r) {
      partials_.push_back(partial_sums(batch.global_micro_batch(r, 0), batch.per_rank()));
      num_rounds_ = std::max(num_rounds_, partials_.back().size());
    }
  }

  bool completes_chunks() const override { return true; }

  void add_leaf(Context& ctx, GradSum& sum, int micro_batch) override {
    push(ctx, sum, std::exchange(sum.leaf, Tensor()),
         {batch_.global_micro_batch(comm_.rank(), micro_batch), 0});
  }

  void start(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    // A rank with fewer partial sums than others sends its last one again; nobody reads it.
    for (std::size_t round = 0; round < num_rounds_; ++round) {
      exchange.sources.push_back(sum.sums[std::min(round, sum.sums.size() - 1)]);
    }
    start_all_to_all(ctx, exchange);
  }

  void finish(Context& ctx, GradSum& sum, GradExchange& exchange,
              const std::function<void(const Chunk&)>& chunk_is_summed) override {
    std::vector<Subtree> leaves;
    for (const auto& partials : partials_) leaves.insert(leaves.end(), partials.begin(), partials.end());
    const std::vector<Addition> additions = finish_tree(leaves);
    exchange.sources.clear();
    auto work = exchange.works.begin();
    for (const Chunk& chunk : exchange.chunks) {
      for (std::size_t round = 0; round < num_rounds_; ++round) (work++)->wait();
      add_pieces(ctx, pieces_of(exchange, chunk), additions, piece_of_sum(ctx, sum, chunk));
      chunk_is_summed(chunk);
    }
  }

  void complete(Context& ctx, GradSum& sum) override {
    if (comm_.size() == 1) finish_stack(ctx, sum);
  }

 private:
  /// All ranks' partial sums over what this rank owns of a chunk, in order of their leaves.
  std::vector<Tensor> pieces_of(const GradExchange& exchange, const Chunk& chunk) const {
    const std::int64_t piece = chunk.num_elems / comm_.size();
    std::vector<Tensor> pieces;
    for (std::size_t r = 0; r < partials_.size(); ++r) {
      for (std::size_t p = 0; p < partials_[r].size(); ++p) {
        const std::int64_t first = chunk.first + static_cast<std::int64_t>(r) * piece;
        pieces.push_back(exchange.received[p].slice(first, {piece}));
      }
    }
    return pieces;
  }

  /// The memory that this rank's piece of a chunk's sum stays in.
  Tensor piece_of_sum(Context& ctx, GradSum& sum, const Chunk& chunk) const {
    const Shape piece{chunk.num_elems / comm_.size()};
    if (options_.sharded.gradients) {
      sum.sums = {ctx.empty(piece, options_.dtype, MemoryCategory::kGradients)};
      return sum.sums[0];
    }
    sum.sums.resize(1);
    return sum.sums[0].slice(chunk.first + comm_.rank() * piece.num_elems(), piece);
  }

  /// The last addition writes `result`.
  static void add_pieces(Context& ctx, const std::vector<Tensor>& pieces,
                         const std::vector<Addition>& additions, const Tensor& result) {
    for (std::size_t i = 0; i < additions.size(); ++i) {
      const Tensor& target = pieces[static_cast<std::size_t>(additions[i].target)];
      const Tensor& source = pieces[static_cast<std::size_t>(additions[i].source)];
      ctx.run(AddArgs{.a = target, .b = source, .out = i + 1 < additions.size() ? target : result});
    }
    if (additions.empty()) ctx.backend->copy(ctx.exec, result, pieces[0]);
  }

  std::vector<std::vector<Subtree>> partials_;  // by rank
  std::size_t num_rounds_ = 0;                  // most partial sums of any rank
};

}  // namespace

std::unique_ptr<GradReduction> once_a_step(const BatchLayout& batch, const GradReductionOptions& options,
                                           Communicator& comm) {
  return std::make_unique<OnceAStep>(batch, options, comm);
}

}  // namespace trireme
