#include "runtime/ops/relu.h"

#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct ReluBackward {
  Tensor result;
  ValueId x = kNoValue;

  std::string name() const { return "relu"; }
  std::vector<Tensor> saved() const { return {result}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    Tensor dx = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
    ctx.run(ReluBwdArgs{.dy = dy, .y = result, .dx = dx});
    gradients.add(ctx, x, std::move(dx));
  }
};

}  // namespace

Tensor relu(Context& ctx, const Tensor& input) {
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kRelu, input.dtype()));
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  ctx.run(ReluArgs{.x = x, .y = y});
  return recorded(ctx, y, ReluBackward{.result = y, .x = x.id()});
}

}  // namespace trireme::ops
