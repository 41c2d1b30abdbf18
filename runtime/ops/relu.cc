#include "runtime/ops/relu.h"

#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct ReluNode : Node {
  Tensor result;
  ValueId x = kNoValue, y = kNoValue;

  std::string name() const override { return "relu"; }
  ValueId output() const override { return y; }
  std::vector<Tensor> saved() const override { return {result}; }

  void backward(Context& ctx, Gradients& gradients) override {
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
  if (ctx.tape == nullptr) return y;

  auto node = std::make_unique<ReluNode>();
  node->result = y;
  node->x = x.id();
  node->y = ctx.tape->new_value();
  const Tensor result = y.with_id(node->y);
  ctx.tape->record(std::move(node));
  return result;
}

}  // namespace trireme::ops
