#include "runtime/ops/mul.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct MulBackward {
  Tensor a, b;

  std::string name() const { return "mul"; }
  std::vector<Tensor> saved() const { return {a, b}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    if (a.id() != kNoValue) gradients.add(ctx, a.id(), times(ctx, dy, b));
    if (b.id() != kNoValue) gradients.add(ctx, b.id(), times(ctx, dy, a));
  }

  static Tensor times(Context& ctx, const Tensor& dy, const Tensor& factor) {
    Tensor dx = ctx.empty(dy.shape(), dy.dtype());
    ctx.run(MulArgs{.a = dy, .b = factor, .out = dx});
    return dx;
  }
};

}  // namespace

Tensor mul(Context& ctx, const Tensor& left, const Tensor& right) {
  TRIREME_CHECK(left.shape() == right.shape(), "mul: {} {} and {} {} differ", name(left.dtype()),
                left.shape().to_string(), name(right.dtype()), right.shape().to_string());
  const DType dtype = ctx.precision.dtype_of(OpKind::kMul, wider(left.dtype(), right.dtype()));
  const Tensor a = cast(ctx, left, dtype), b = cast(ctx, right, dtype);
  const Tensor y = ctx.empty(a.shape(), dtype);
  ctx.run(MulArgs{.a = a, .b = b, .out = y});
  return recorded(ctx, y, MulBackward{.a = a, .b = b});
}

}  // namespace trireme::ops
