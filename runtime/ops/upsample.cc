#include "runtime/ops/upsample.h"

#include "runtime/base/error.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct UpsampleBackward {
  Shape shape;  // of x
  ValueId x = kNoValue;

  std::string name() const { return "upsample_nearest"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    Tensor dx = ctx.empty(shape, dy.dtype());
    ctx.run(UpsampleBwdArgs{.dy = dy, .dx = dx});
    gradients.add(ctx, x, std::move(dx));
  }
};

}  // namespace

Tensor upsample_nearest(Context& ctx, const Tensor& x) {
  const Shape& shape = x.shape();
  TRIREME_CHECK(shape.rank() == 4, "upsample_nearest: needs images [B, H, W, C], got {}", shape.to_string());
  const Tensor y = ctx.empty({shape[0], 2 * shape[1], 2 * shape[2], shape[3]}, x.dtype());
  ctx.run(UpsampleFwdArgs{.x = x, .y = y});
  return recorded(ctx, y, UpsampleBackward{.shape = shape, .x = x.id()});
}

}  // namespace trireme::ops
