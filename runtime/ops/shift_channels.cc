#include "runtime/ops/shift_channels.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

// [B, ..., C] as [B, P, C].
Shape positions_of(const Shape& shape) {
  const std::int64_t samples = shape.dim(0), channels = shape.dim(-1);
  return {samples, shape.num_elems() / (samples * channels), channels};
}

struct ShiftChannelsBackward {
  ValueId x = kNoValue, shift = kNoValue;

  std::string name() const { return "shift_channels"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    if (shift != kNoValue) {
      const Shape shape = positions_of(dy.shape());
      const Tensor sum = ctx.empty({shape[0], shape[2]}, dy.dtype());
      ctx.run(SumPositionsArgs{.x = dy.reshape(shape), .sum = sum});
      gradients.add(ctx, shift, sum);
    }
    gradients.add(ctx, x, dy);
  }
};

}  // namespace

Tensor shift_channels(Context& ctx, const Tensor& input, const Tensor& vectors) {
  const Shape& shape = input.shape();
  TRIREME_CHECK(
      shape.rank() >= 2 && shape.num_elems() > 0 && vectors.shape() == Shape({shape.dim(0), shape.dim(-1)}),
      "shift_channels: a shift {} does not fit the input {} (want [B, C] and [B, ..., C])",
      vectors.shape().to_string(), shape.to_string());
  const DType dtype = ctx.precision.dtype_of(OpKind::kAdd, wider(input.dtype(), vectors.dtype()));
  const Tensor x = cast(ctx, input, dtype), shift = cast(ctx, vectors, dtype);
  const Tensor y = ctx.empty(shape, dtype);
  const Shape positions = positions_of(shape);
  ctx.run(ShiftChannelsArgs{.x = x.reshape(positions), .shift = shift, .y = y.reshape(positions)});
  return recorded(ctx, y, ShiftChannelsBackward{.x = x.id(), .shift = shift.id()});
}

}  // namespace trireme::ops
