#include "runtime/ops/row_groups.h"

#include "runtime/ops/sequence_shard.h"

namespace trireme::ops {
namespace {

// The sum of `count` parts [elems], a power of two, in a binary tree; overwrites the first part.
Tensor tree_sum(const Context& ctx, const Tensor& parts, std::int64_t count) {
  const std::int64_t elems = parts.num_elems() / count;
  const auto part = [&](std::int64_t i) { return parts.slice(i * elems, {elems}); };
  for (std::int64_t apart = 1; apart < count; apart *= 2) {
    for (std::int64_t left = 0; left < count; left += 2 * apart) {
      ctx.run(AddArgs{.a = part(left), .b = part(left + apart), .out = part(left)});
    }
  }
  return part(0);
}

}  // namespace

Tensor sum_in_row_groups(Context& ctx, std::int64_t rows, int groups, std::int64_t elems,
                         const std::function<void(const RowRange&, const Tensor&)>& sum_rows) {
  const bool shards = shards_sequence(ctx);
  const std::int64_t own = shards ? ctx.tensor->own_chunks(groups).count : groups;
  const Tensor sums = rows < own ? ctx.zeros({own * elems}) : ctx.empty({own * elems});
  for (std::int64_t i = 0; i < own; ++i) {
    const std::int64_t first = i * rows / own, end = (i + 1) * rows / own;
    if (first < end) sum_rows({first, end - first}, sums.slice(i * elems, {elems}));
  }
  const Tensor mine = tree_sum(ctx, sums, own);
  return shards ? tree_sum(ctx, ctx.tensor->gather_partials(ctx, mine), ctx.tensor->size()) : mine;
}

void put_gradient(const Context& ctx, const GradientTarget& target, const Tensor& sum) {
  if (target.mode == GradientMode::kOverwrite) ctx.backend->copy(ctx.exec, target.tensor, sum);
  if (target.mode == GradientMode::kAccumulate) {
    ctx.run(AddArgs{.a = target.tensor, .b = sum, .out = target.tensor});
  }
}

}  // namespace trireme::ops
