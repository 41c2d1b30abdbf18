#include "runtime/ops/swiglu.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct SwigluBackward {
  Tensor x;

  std::string name() const { return "swiglu"; }
  std::vector<Tensor> saved() const { return {x}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    Tensor dx = x.unique() ? x : ctx.empty(x.shape(), x.dtype());
    ctx.run(SwigluBwdArgs{.dy = dy.rows(), .x = x.rows(), .dx = dx.rows()});
    gradients.add(ctx, x.id(), std::move(dx));
  }
};

}  // namespace

Tensor swiglu(Context& ctx, const Tensor& input) {
  TRIREME_CHECK(input.shape().rank() >= 2 && input.shape().dim(-1) % 2 == 0,
                "swiglu: input {} is not [..., 2 F], a gate beside what it scales",
                input.shape().to_string());
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kSwiglu, input.dtype()));
  const Tensor y = ctx.empty(x.shape().with_last(x.shape().dim(-1) / 2), x.dtype());
  ctx.run(SwigluFwdArgs{.x = x.rows(), .y = y.rows()});
  return recorded(ctx, y, SwigluBackward{.x = x});
}

}  // namespace trireme::ops
