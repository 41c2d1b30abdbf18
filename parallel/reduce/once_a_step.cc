// Canonical reduction once a step. Complete subtrees of this rank's run of micro-batches are joined at once.
// The remaining partial sums are exchanged by all-to-all, and the rank that owns a piece adds them in tree
// order. A run of 2^k micro-batches keeps k buffers of the model's size and one leaf of one block. On two
// levels a rank has one partial sum, and a host exchanges the sum over its ranks.
#include <algorithm>
#include <utility>

#include "parallel/reduce/host_sum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

class OnceAStep final : public GradReduction {
 public:
  OnceAStep(const BatchLayout& batch, const GradReductionOptions& options, const DataAxis& axis)
      : GradReduction(batch, options, axis) {
    const int per_host = axis.ranks_per_host();
    for (int h = 0; h < axis.num_hosts(); ++h) {
      partials_.push_back(
          partial_sums(batch.first_of(h * per_host), per_host * batch.count_of(h * per_host)));
      num_rounds_ = std::max(num_rounds_, partials_.back().size());
    }
    TRIREME_CHECK(per_host == 1 || num_rounds_ == 1,
                  "{} micro-batches on each of {} ranks of a host are no complete subtree of the sum over "
                  "all: their number must be a power of two",
                  batch.per_rank(), per_host);
  }

  bool completes_chunks() const override { return true; }

  void add_leaf(Context& ctx, GradSum& sum, int micro_batch) override {
    push(ctx, sum, std::exchange(sum.leaf, Tensor()),
         {batch_.global_micro_batch(axis_.rank(), micro_batch), 0});
  }

  void start_in_host(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    exchange.sources = {sum.sums[0]};
    exchange.received = {receive_buffer(ctx, sum.sums[0].num_elems())};
    start_host_sum(axis_, exchange);
  }

  void start(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    // A rank with fewer partial sums than others sends its last one again; the receivers ignore it.
    for (std::size_t round = 0; round < num_rounds_ && !sums_in_host(); ++round) {
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
    if (axis_.size() == 1) finish_stack(ctx, sum);
  }

 private:
  /// The partial sums of all ranks (on two levels: hosts) for this rank's piece of a chunk, in order of their
  /// leaves.
  std::vector<Tensor> pieces_of(const GradExchange& exchange, const Chunk& chunk) const {
    const std::int64_t piece = chunk.num_elems / axis_.size();
    std::vector<Tensor> pieces;
    for (std::size_t r = 0; r < partials_.size(); ++r) {
      for (std::size_t p = 0; p < partials_[r].size(); ++p) {
        const std::int64_t first = chunk.first + static_cast<std::int64_t>(r) * piece;
        pieces.push_back(exchange.received[p].slice(first, {piece}));
      }
    }
    return pieces;
  }

  /// The memory that keeps this rank's piece of a chunk's sum.
  Tensor piece_of_sum(Context& ctx, GradSum& sum, const Chunk& chunk) const {
    const Shape piece{chunk.num_elems / axis_.size()};
    if (options_.sharded.gradients) {
      sum.sums = {ctx.empty(piece, options_.dtype, MemoryCategory::kGradients)};
      return sum.sums[0];
    }
    sum.sums.resize(1);
    return sum.sums[0].slice(chunk.first + axis_.sharding().rank * piece.num_elems(), piece);
  }

  std::vector<std::vector<Subtree>> partials_;  // by rank; on two levels, by host
  std::size_t num_rounds_ = 0;                  // the maximum number of partial sums
};

}  // namespace

std::unique_ptr<GradReduction> once_a_step(const BatchLayout& batch, const GradReductionOptions& options,
                                           const DataAxis& axis) {
  return std::make_unique<OnceAStep>(batch, options, axis);
}

}  // namespace trireme
