#include "runtime/ops/geglu.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct Halves {
  Tensor up, gate;
};

Activation activation_of(GegluForm form) {
  return form == GegluForm::kUpGate ? Activation::kGelu : Activation::kGeluTanh;
}

/// `up` and `gate` in the order of `form`.
std::pair<Tensor, Tensor> in_order(const Halves& halves, GegluForm form) {
  return form == GegluForm::kUpGate ? std::pair(halves.up, halves.gate) : std::pair(halves.gate, halves.up);
}

Halves halves_of(Context& ctx, const Tensor& x, GegluForm form) {
  const Shape half = x.shape().with_last(x.shape().dim(-1) / 2);
  const Halves halves{.up = ctx.empty(half, x.dtype()), .gate = ctx.empty(half, x.dtype())};
  const auto [first, second] = in_order(halves, form);
  ctx.run(SplitChannelsArgs{.x = x.rows(), .a = first.rows(), .b = second.rows()});
  return halves;
}

Tensor gelu_of(Context& ctx, const Tensor& gate, GegluForm form) {
  const Tensor y = ctx.empty(gate.shape(), gate.dtype());
  ctx.run(ActivationFwdArgs{.x = gate, .y = y, .activation = activation_of(form)});
  return y;
}

struct GegluBackward {
  Tensor x;
  GegluForm form = GegluForm::kUpGate;

  std::string name() const { return "geglu"; }
  std::vector<Tensor> saved() const { return {x}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    const Halves halves = halves_of(ctx, x, form);
    const Tensor dup = gelu_of(ctx, halves.gate, form);
    ctx.run(MulArgs{.a = dy, .b = dup, .out = dup});
    const Tensor& dgate = halves.up;  // overwritten
    ctx.run(MulArgs{.a = dy, .b = halves.up, .out = dgate});
    ctx.run(
        ActivationBwdArgs{.dy = dgate, .pre = halves.gate, .dx = dgate, .activation = activation_of(form)});
    const Tensor dx = ctx.empty(x.shape(), x.dtype());
    const auto [first, second] = in_order({.up = dup, .gate = dgate}, form);
    ctx.run(ConcatChannelsArgs{.a = first.rows(), .b = second.rows(), .y = dx.rows()});
    gradients.add(ctx, x.id(), dx);
  }
};

}  // namespace

Tensor geglu(Context& ctx, const Tensor& input, GegluForm form) {
  TRIREME_CHECK(input.shape().rank() >= 2 && input.shape().dim(-1) % 2 == 0,
                "geglu: input {} is not [..., 2 F], values beside their gate", input.shape().to_string());
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kSwiglu, input.dtype()));
  const Halves halves = halves_of(ctx, x, form);
  const Tensor y = gelu_of(ctx, halves.gate, form);
  ctx.run(MulArgs{.a = halves.up, .b = y, .out = y});
  return recorded(ctx, y, GegluBackward{.x = x, .form = form});
}

}  // namespace trireme::ops
