#include "runtime/ops/pool.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct MaxPoolBackward {
  Tensor place;
  Shape shape;  // of x
  PoolWindow window;
  ValueId x = kNoValue;

  std::string name() const { return "max_pool"; }
  std::vector<Tensor> saved() const { return {place}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    const Tensor dx = ctx.empty(shape, dy.dtype());
    ctx.run(MaxPoolBwdArgs{.dy = dy, .place = place, .dx = dx, .window = window});
    gradients.add(ctx, x, dx);
  }
};

struct AvgPoolBackward {
  Shape x_shape, y_shape;
  PoolWindow window;
  ValueId x = kNoValue;

  std::string name() const { return "avg_pool"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y).reshape(y_shape);
    const Tensor dx = ctx.empty(x_shape, dy.dtype());
    ctx.run(AvgPoolBwdArgs{.dy = dy, .dx = dx, .window = window});
    gradients.add(ctx, x, dx);
  }
};

Shape pooled(const char* op, const Shape& x, const PoolWindow& window) {
  TRIREME_CHECK(x.rank() == 4, "{}: needs images [B, H, W, C], got {}", op, x.to_string());
  TRIREME_CHECK(
      window.height >= 1 && window.width >= 1 && window.stride >= 1 && window.padding >= 0 &&
          2 * window.padding <= std::min(window.height, window.width),
      "{}: a window of {} x {}, stride {} and padding {} does not work: all must be positive, and the "
      "padding at most half of the window",
      op, window.height, window.width, window.stride, window.padding);
  const std::int64_t height = x[1] + 2 * window.padding - window.height;
  const std::int64_t width = x[2] + 2 * window.padding - window.width;
  TRIREME_CHECK(height >= 0 && width >= 0, "{}: a window of {} x {} is larger than input {}", op,
                window.height, window.width, x.to_string());
  return {x[0], height / window.stride + 1, width / window.stride + 1, x[3]};
}

// Average pooling; the result gets `shape`.
Tensor averaged(Context& ctx, const Tensor& input, const PoolWindow& window, const Shape& shape) {
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kPool, input.dtype()));
  const Shape pooled_shape = pooled("avg_pool", x.shape(), window);
  const Tensor y = ctx.empty(pooled_shape, x.dtype());
  ctx.run(AvgPoolFwdArgs{.x = x, .y = y, .window = window});
  return recorded(
      ctx, y.reshape(shape),
      AvgPoolBackward{.x_shape = x.shape(), .y_shape = pooled_shape, .window = window, .x = x.id()});
}

}  // namespace

Tensor max_pool(Context& ctx, const Tensor& input, const PoolWindow& window) {
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kPool, input.dtype()));
  const Shape shape = pooled("max_pool", x.shape(), window);
  TRIREME_CHECK(window.height * window.width <= 256, "max_pool: a window of {} x {} has more than 256 pixels",
                window.height, window.width);
  const Tensor y = ctx.empty(shape, x.dtype());
  const Tensor place = ctx.tape != nullptr ? ctx.empty(shape, DType::kUInt8) : Tensor();
  ctx.run(MaxPoolFwdArgs{.x = x, .y = y, .place = place, .window = window});
  return recorded(ctx, y, MaxPoolBackward{.place = place, .shape = x.shape(), .window = window, .x = x.id()});
}

Tensor avg_pool(Context& ctx, const Tensor& x, const PoolWindow& window) {
  return averaged(ctx, x, window, pooled("avg_pool", x.shape(), window));
}

Tensor global_pool(Context& ctx, const Tensor& x) {
  TRIREME_CHECK(x.shape().rank() == 4, "global_pool: needs images [B, H, W, C], got {}",
                x.shape().to_string());
  return averaged(ctx, x, {.height = x.shape()[1], .width = x.shape()[2]}, {x.shape()[0], x.shape()[3]});
}

}  // namespace trireme::ops
