#include "parallel/reduce/grad_reduction.h"

#include "parallel/reduce/host_sum.h"
#include "runtime/base/error.h"

namespace trireme {

void GradReduction::push(Context& ctx, GradSum& sum, const Tensor& subtree_sum, Subtree subtree) {
  sum.sums.push_back(subtree_sum);
  for (int joins = sum.stack.push(subtree); joins > 0; --joins) {
    const Tensor right = sum.sums.back();
    sum.sums.pop_back();
    ctx.run(AddArgs{.a = sum.sums.back(), .b = right, .out = sum.sums.back()});
  }
}

void GradReduction::finish_stack(Context& ctx, GradSum& sum) {
  for (const Addition& add : finish_tree(sum.stack.entries())) {
    const Tensor& target = sum.sums[static_cast<std::size_t>(add.target)];
    ctx.run(AddArgs{.a = target, .b = sum.sums[static_cast<std::size_t>(add.source)], .out = target});
  }
  sum.sums.resize(1);
  sum.stack = {};
}

void GradReduction::start_all_to_all(Context& ctx, GradExchange& exchange) const {
  if (!sums_in_host()) {
    for (const Tensor& source : exchange.sources) {
      exchange.received.push_back(receive_buffer(ctx, source.num_elems()));
    }
  }
  for (std::size_t c = 0; c < exchange.chunks.size(); ++c) {
    const Chunk& chunk = exchange.chunks[c];
    if (sums_in_host()) finish_host_sum(ctx, axis_, exchange, c);
    const Shape length{chunk.num_elems / axis_.ranks_per_host()};
    for (std::size_t i = 0; i < exchange.sources.size(); ++i) {
      exchange.works.push_back(axis_.over_hosts().all_to_all(
          exchange.sources[i].slice(chunk.first, length), exchange.received[i].slice(chunk.first, length)));
    }
  }
}

std::unique_ptr<GradReduction> make_reduction(const BatchLayout& batch, const GradReductionOptions& options,
                                              const DataAxis& axis) {
  const bool each = options.reduce_each_micro_batch && axis.size() > 1;  // one rank has nothing to exchange
  TRIREME_CHECK(batch.data_ranks == axis.size(), "the batch is laid out for {} ranks, the group has {}",
                batch.data_ranks, axis.size());
  TRIREME_CHECK(!each || batch.assignment == Assignment::kStrided,
                "reducing every micro-batch wants the strided assignment of micro-batches");
  TRIREME_CHECK(options.dtype == DType::kFloat32 || options.reduction == Reduction::kCanonical,
                "the fast reduction sums in fp32 only, not in {}: use the canonical one, or fp32 gradients",
                name(options.dtype));
  if (options.reduction == Reduction::kFast) return library_reduction(batch, options, axis);
  return each ? each_micro_batch(batch, options, axis) : once_a_step(batch, options, axis);
}

}  // namespace trireme
