// The library's own all-reduce or reduce-scatter ("fast"): one buffer, in which backward accumulates the
// micro-batches. The order of additions between ranks is the library's.
#include <utility>

#include "parallel/reduce/grad_reduction.h"

namespace trireme {
namespace {

class LibraryReduction final : public GradReduction {
 public:
  using GradReduction::GradReduction;

  MemoryCategory leaf_category() const override {
    return options_.reduce_each_micro_batch && comm_.size() > 1 ? MemoryCategory::kCommunication
                                                                : MemoryCategory::kGradients;
  }
  bool sums_pieces() const override { return options_.sharded.optimizer; }

  void start(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    const Tensor& source = exchange.sources.emplace_back(std::exchange(sum.leaf, Tensor()));
    if (!sums_pieces()) {
      exchange.works.push_back(comm_.all_reduce(source, ReduceOp::kSum));
      return;
    }
    exchange.received.push_back(receive_buffer(ctx, source.num_elems() / comm_.size()));
    exchange.works.push_back(comm_.reduce_scatter(source, exchange.received[0], ReduceOp::kSum));
  }

  void finish(Context& ctx, GradSum& sum, GradExchange& exchange,
              const std::function<void(const Chunk&)>& /*chunk_is_summed*/) override {
    exchange.works[0].wait();
    if (!sums_pieces()) {
      sum.sums = {exchange.sources[0]};
    } else if (sum.sums.empty()) {
      const Tensor own = ctx.empty(exchange.received[0].shape(), DType::kFloat32, MemoryCategory::kGradients);
      ctx.backend->copy(ctx.exec, own, exchange.received[0]);
      sum.sums = {own};
    } else {
      add(ctx, sum, exchange.received[0]);
    }
  }

  // The leaf is the sum of this micro-batch or of all.
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
                                                 const GradReductionOptions& options, Communicator& comm) {
  return std::make_unique<LibraryReduction>(batch, options, comm);
}

}  // namespace trireme
