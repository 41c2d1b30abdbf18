// Canonical, every micro-batch: each leaf is exchanged as it is, and every rank runs the binary counter on
// buffers of its piece's size. Leaves are then only staging for the exchange and are counted as
// communication.
#include <utility>

#include "parallel/reduce/grad_reduction.h"

namespace trireme {
namespace {

class EachMicroBatch final : public GradReduction {
 public:
  using GradReduction::GradReduction;

  MemoryCategory leaf_category() const override { return MemoryCategory::kCommunication; }

  void start(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    exchange.sources.push_back(std::exchange(sum.leaf, Tensor()));
    start_all_to_all(ctx, exchange);
  }

  // One leaf of each rank, in rank order.
  void finish(Context& ctx, GradSum& sum, GradExchange& exchange,
              const std::function<void(const Chunk&)>& /*chunk_is_summed*/) override {
    for (Work& work : exchange.works) work.wait();
    const Tensor& received = exchange.received[0];
    const std::int64_t piece = received.num_elems() / comm_.size();
    for (int r = 0; r < comm_.size(); ++r) {
      push(ctx, sum, received.slice(r * piece, {piece}),
           {batch_.global_micro_batch(r, exchange.micro_batch), 0});
    }
    // What has not joined a sum of an earlier round still lies in the receive buffer: a piece must not keep
    // it alive.
    const auto* begin = static_cast<const std::byte*>(received.data());
    const auto* end = begin + received.size_bytes();
    for (Tensor& entry : sum.sums) {
      const auto* at = static_cast<const std::byte*>(entry.data());
      if (at < begin || at >= end) continue;
      const Tensor own = ctx.empty({piece}, options_.dtype, MemoryCategory::kGradients);
      ctx.backend->copy(ctx.exec, own, entry);
      entry = own;
    }
  }

  void complete(Context& ctx, GradSum& sum) override { finish_stack(ctx, sum); }
};

}  // namespace

std::unique_ptr<GradReduction> each_micro_batch(const BatchLayout& batch, const GradReductionOptions& options,
                                                Communicator& comm) {
  return std::make_unique<EachMicroBatch>(batch, options, comm);
}

}  // namespace trireme
