#include "runtime/ops/scale.h"

#include <utility>

#include "runtime/tape.h"

namespace trireme::ops {
namespace {

Tensor copy_of(const Context& ctx, const Tensor& x) {
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  ctx.backend->copy(ctx.exec, y, x);
  return y;
}

struct ScaleBackward {
  ValueId x = kNoValue;
  float factor = 1.0f;

  std::string name() const { return "scale"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    Tensor dx = dy.unique() ? dy : copy_of(ctx, dy);
    ctx.run(ScaleArgs{.x = dx, .constant = factor});
    gradients.add(ctx, x, std::move(dx));
  }
};

}  // namespace

Tensor scale(Context& ctx, const Tensor& x, float factor) {
  const Tensor y = copy_of(ctx, x);
  ctx.run(ScaleArgs{.x = y, .constant = factor});
  return recorded(ctx, y, ScaleBackward{.x = x.id(), .factor = factor});
}

}  // namespace trireme::ops
