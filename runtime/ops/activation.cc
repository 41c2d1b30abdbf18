#include "runtime/ops/activation.h"

#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct ActivationBackward {
  Tensor x;
  Activation activation = Activation::kNone;

  std::string name() const { return "activation"; }
  std::vector<Tensor> saved() const { return {x}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    Tensor dx = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
    ctx.run(ActivationBwdArgs{.dy = dy, .pre = x, .dx = dx, .activation = activation});
    gradients.add(ctx, x.id(), std::move(dx));
  }
};

}  // namespace

Tensor activation(Context& ctx, const Tensor& x, Activation activation) {
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  ctx.run(ActivationFwdArgs{.x = x, .y = y, .activation = activation});
  return recorded(ctx, y, ActivationBackward{.x = x, .activation = activation});
}

}  // namespace trireme::ops
