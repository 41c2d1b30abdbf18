// The library's own all-reduce or reduce-scatter ("fast"): one buffer, in which backward accumulates the
// micro-batches. The library chooses the order of additions between ranks. On two levels: a reduce-scatter
// within the host, then an all-reduce or reduce-scatter over hosts, then the plan's gather within the host
// (the two-dimensional all-reduce of Ying et al. 2018, "Image Classification at Supercomputer Scale").
#include <utility>

#include "parallel/reduce/grad_reduction.h"

namespace trireme {
namespace {

class LibraryReduction final : public GradReduction {
 public:
  using GradReduction::GradReduction;

  MemoryCategory leaf_category() const override {
    return options_.reduce_each_micro_batch && axis_.size() > 1 ? MemoryCategory::kCommunication
                                                                : MemoryCategory::kGradients;
  }
  bool sums_pieces() const override { return options_.sharded.optimizer; }

  void start_in_host(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    const Tensor& source = exchange.sources.emplace_back(std::exchange(sum.leaf, Tensor()));
    const Tensor& part =
        exchange.received.emplace_back(receive_buffer(ctx, source.num_elems() / axis_.ranks_per_host()));
    exchange.in_host_works.push_back(axis_.in_host().reduce_scatter(source, part, ReduceOp::kSum));
  }

  void start(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    if (sums_in_host()) {
      exchange.in_host_works[0].wait();
    } else {
      exchange.sources = {std::exchange(sum.leaf, Tensor())};
    }
    const Tensor source = sums_in_host() ? exchange.received[0] : exchange.sources[0];
    if (!sums_pieces()) {
      exchange.works.push_back(axis_.over_hosts().all_reduce(source, ReduceOp::kSum));
      return;
    }
    const Tensor& piece =
        exchange.received.emplace_back(receive_buffer(ctx, source.num_elems() / axis_.num_hosts()));
    exchange.works.push_back(axis_.over_hosts().reduce_scatter(source, piece, ReduceOp::kSum));
  }

  void finish(Context& ctx, GradSum& sum, GradExchange& exchange,
              const std::function<void(const Chunk&)>& /*chunk_is_summed*/) override {
    exchange.works[0].wait();
    if (!sums_pieces()) {
      sum.sums = {exchange.sources[0]};
      if (sums_in_host()) {
        ctx.backend->copy(ctx.exec, axis_.part_of_place(sum.sums[0]), exchange.received[0]);
      }
    } else if (sum.sums.empty()) {
      const Tensor& piece = exchange.received.back();
      const Tensor own = ctx.empty(piece.shape(), DType::kFloat32, MemoryCategory::kGradients);
      ctx.backend->copy(ctx.exec, own, piece);
      sum.sums = {own};
    } else {
      add(ctx, sum, exchange.received.back());
    }
  }

  // The leaf is the sum of this micro-batch, or of all micro-batches.
  void sum_alone(Context& ctx, GradSum& sum) override {
    if (!sum.leaf.defined()) return;
    const Tensor leaf = std::exchange(sum.leaf, Tensor());
    if (sum.sums.empty()) {
      sum.sums = {leaf};
    } else {
      add(ctx, sum, leaf);
    }
  }

 private:
  static void add(Context& ctx, GradSum& sum, const Tensor& gradient) {
    ctx.run(AddArgs{.a = sum.sums[0], .b = gradient, .out = sum.sums[0]});
  }
};

}  // namespace

std::unique_ptr<GradReduction> library_reduction(const BatchLayout& batch,
                                                 const GradReductionOptions& options, const DataAxis& axis) {
  return std::make_unique<LibraryReduction>(batch, options, axis);
}

}  // namespace trireme
