// Canonical reduction after every micro-batch. Each leaf is exchanged on its own, and every rank runs the
// binary counter on buffers of its piece's size. Leaves are then only staging for the exchange and count as
// communication memory. On two levels, the leaves of a host's ranks, which are neighbours in every round, are
// summed first.
#include <bit>
#include <utility>

#include "parallel/reduce/host_sum.h"

namespace trireme {
namespace {

class EachMicroBatch final : public GradReduction {
 public:
  using GradReduction::GradReduction;

  MemoryCategory leaf_category() const override { return MemoryCategory::kCommunication; }

  void start_in_host(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    exchange.sources = {std::exchange(sum.leaf, Tensor())};
    exchange.received = {receive_buffer(ctx, exchange.sources[0].num_elems())};
    start_host_sum(axis_, exchange);
  }

  void start(Context& ctx, GradSum& sum, GradExchange& exchange) override {
    if (!sums_in_host()) exchange.sources = {std::exchange(sum.leaf, Tensor())};
    start_all_to_all(ctx, exchange);
  }

  // Pushes one leaf of each rank in rank order, or the sum of each host in host order.
  void finish(Context& ctx, GradSum& sum, GradExchange& exchange,
              const std::function<void(const Chunk&)>& /*chunk_is_summed*/) override {
    for (Work& work : exchange.works) work.wait();
    const Tensor& received = exchange.received[0];
    const std::int64_t piece = received.num_elems() / axis_.size();
    const int per_host = axis_.ranks_per_host();
    const int level = std::bit_width(static_cast<unsigned>(per_host)) - 1;
    for (int h = 0; h < axis_.num_hosts(); ++h) {
      push(ctx, sum, received.slice(h * piece, {piece}),
           {batch_.global_micro_batch(h * per_host, exchange.micro_batch), level});
    }
    // Copies pieces of earlier rounds that still point into the receive buffer, so that they do not keep the
    // whole buffer alive.
    const auto* begin = static_cast<const std::byte*>(received.address());
    const auto* end = begin + received.size_bytes();
    for (Tensor& entry : sum.sums) {
      const auto* at = static_cast<const std::byte*>(entry.address());
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
                                                const DataAxis& axis) {
  return std::make_unique<EachMicroBatch>(batch, options, axis);
}

}  // namespace trireme
