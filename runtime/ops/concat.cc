#include "runtime/ops/concat.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct ConcatBackward {
  Shape a_shape, b_shape;
  ValueId a = kNoValue, b = kNoValue;

  std::string name() const { return "concat_channels"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    Tensor da = ctx.empty(a_shape, dy.dtype()), db = ctx.empty(b_shape, dy.dtype());
    ctx.run(SplitChannelsArgs{.x = dy.rows(), .a = da.rows(), .b = db.rows()});
    gradients.add(ctx, b, std::move(db));
    gradients.add(ctx, a, std::move(da));
  }
};

}  // namespace

Tensor concat_channels(Context& ctx, const Tensor& left, const Tensor& right) {
  const Shape &l = left.shape(), &r = right.shape();
  TRIREME_CHECK(l.rank() >= 1 && r.rank() == l.rank() && l.with_last(1) == r.with_last(1),
                "concat_channels: {} and {} differ in more than the last dim", l.to_string(), r.to_string());
  const DType dtype = ctx.precision.dtype_of(OpKind::kConcatChannels, wider(left.dtype(), right.dtype()));
  const Tensor a = cast(ctx, left, dtype), b = cast(ctx, right, dtype);
  const Tensor y = ctx.empty(l.with_last(l.dim(-1) + r.dim(-1)), dtype);
  ctx.run(ConcatChannelsArgs{.a = a.rows(), .b = b.rows(), .y = y.rows()});
  return recorded(ctx, y, ConcatBackward{.a_shape = l, .b_shape = r, .a = a.id(), .b = b.id()});
}

}  // namespace trireme::ops
