#include "runtime/ops/shared_gradients.h"

#include "runtime/base/error.h"
#include "runtime/ops/row_groups.h"

namespace trireme::ops {

void ChunkSum::add(const Context& ctx, Tensor partial) {
  int level = 0;
  for (; !stack_.empty() && stack_.back().first == level; ++level) {
    const Tensor other = std::exchange(stack_.back().second, Tensor());
    stack_.pop_back();
    const Tensor sum = partial.unique() ? partial : other.unique() ? other : ctx.empty(partial.shape());
    ctx.run(AddArgs{.a = partial, .b = other, .out = sum});
    partial = sum;
  }
  stack_.emplace_back(level, std::move(partial));
}

Tensor ChunkSum::take() {
  TRIREME_CHECK(stack_.size() == 1, "the chunks of a rank have left {} sums, not 1", stack_.size());
  Tensor sum = std::move(stack_.back().second);
  stack_.clear();
  return sum;
}

void SharedGradients::finish(Context& ctx) {
  if (sums_.empty()) return;
  std::vector<std::pair<ParamRef, Tensor>> parts;
  std::int64_t elems = 0;
  for (auto& [index, sum] : sums_) {
    parts.emplace_back(ParamRef{index}, sum.take());
    elems += parts.back().second.num_elems();
  }
  sums_.clear();
  const Tensor all = ctx.empty({elems});
  std::int64_t first = 0;
  for (const auto& [ref, part] : parts) {
    ctx.backend->copy(ctx.exec, all.slice(std::exchange(first, first + part.num_elems()), part.shape()),
                      part);
  }
  const Tensor total = tree_sum_over_ranks(ctx, all);
  first = 0;
  for (const auto& [ref, part] : parts) {
    const Tensor sum = total.slice(std::exchange(first, first + part.num_elems()), part.shape());
    put_gradient(ctx, ctx.parameters->gradient(ref), sum);
  }
}

}  // namespace trireme::ops
