#include "runtime/ops/chunk_parameters.h"

#include "runtime/base/error.h"
#include "runtime/ops/row_groups.h"
#include "runtime/tape.h"
#include "runtime/tensor_axis.h"

namespace trireme::ops {
namespace {

struct ChunkParametersBackward {
  std::vector<ParamRef> parameters;
  std::shared_ptr<ChunkGradient> gradient;
  ValueId x = kNoValue;

  std::string name() const { return "chunk_parameters"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    gradients.add(ctx, x, gradients.take(y));
    const Tensor sum = gradient->take();
    if (ctx.tensor != nullptr) ctx.tensor->sum_partials(ctx, sum);
    std::int64_t first = 0;
    for (const ParamRef ref : parameters) {
      const std::int64_t elems = ctx.parameters->value(ref).num_elems();
      put_gradient(ctx, ctx.parameters->gradient(ref), sum.slice(first, {elems}));
      first += elems;
    }
  }
};

}  // namespace

void ChunkGradient::add(const Context& ctx, Tensor partial) {
  int level = 0;
  for (; !stack_.empty() && stack_.back().first == level; ++level) {
    ctx.run(AddArgs{.a = partial, .b = stack_.back().second, .out = partial});
    stack_.pop_back();
  }
  stack_.emplace_back(level, std::move(partial));
}

Tensor ChunkGradient::take() {
  TRIREME_CHECK(stack_.size() == 1, "the chunks of a rank have left {} sums of a gradient, not 1",
                stack_.size());
  Tensor sum = std::move(stack_.back().second);
  stack_.clear();
  return sum;
}

Tensor read_with_parameters(Context& ctx, const Tensor& x, std::vector<ParamRef> parameters,
                            std::shared_ptr<ChunkGradient> gradient) {
  if (ctx.tape == nullptr) return x;
  return recorded(ctx, x.detach(),
                  ChunkParametersBackward{
                      .parameters = std::move(parameters), .gradient = std::move(gradient), .x = x.id()});
}

}  // namespace trireme::ops
