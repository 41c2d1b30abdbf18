#include "runtime/ops/geglu.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct Halves {
  Tensor up, gate;
};

Halves halves_of(Context& ctx, const Tensor& x) {
  const Shape half = x.shape().with_last(x.shape().dim(-1) / 2);
  const Halves halves{.up = ctx.empty(half, x.dtype()), .gate = ctx.empty(half, x.dtype())};
  ctx.run(SplitChannelsArgs{.x = x.rows(), .a = halves.up.rows(), .b = halves.gate.rows()});
  return halves;
}

Tensor gelu_of(Context& ctx, const Tensor& gate) {
  const Tensor y = ctx.empty(gate.shape(), gate.dtype());
  ctx.run(ActivationFwdArgs{.x = gate, .y = y, .activation = Activation::kGelu});
  return y;
}

struct GegluBackward {
  Tensor x;

  std::string name() const { return "geglu"; }
  std::vector<Tensor> saved() const { return {x}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    const Halves halves = halves_of(ctx, x);
    const Tensor dup = gelu_of(ctx, halves.gate);
    ctx.run(MulArgs{.a = dy, .b = dup, .out = dup});
    const Tensor& dgate = halves.up;  // overwritten
    ctx.run(MulArgs{.a = dy, .b = halves.up, .out = dgate});
    ctx.run(ActivationBwdArgs{.dy = dgate, .pre = halves.gate, .dx = dgate, .activation = Activation::kGelu});
    const Tensor dx = ctx.empty(x.shape(), x.dtype());
    ctx.run(ConcatChannelsArgs{.a = dup.rows(), .b = dgate.rows(), .y = dx.rows()});
    gradients.add(ctx, x.id(), dx);
  }
};

}  // namespace

Tensor geglu(Context& ctx, const Tensor& input) {
  TRIREME_CHECK(input.shape().rank() >= 2 && input.shape().dim(-1) % 2 == 0,
                "geglu: input {} is not [..., 2 F], values beside their gate", input.shape().to_string());
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kSwiglu, input.dtype()));
  const Halves halves = halves_of(ctx, x);
  const Tensor y = gelu_of(ctx, halves.gate);
  ctx.run(MulArgs{.a = halves.up, .b = y, .out = y});
  return recorded(ctx, y, GegluBackward{.x = x});
}

}  // namespace trireme::ops
