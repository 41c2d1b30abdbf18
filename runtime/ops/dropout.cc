#include "runtime/ops/dropout.h"

#include "runtime/base/error.h"
#include "runtime/ops/add.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct DropoutBackward {
  ValueId x = kNoValue, residual = kNoValue;
  float p = 0.0f;
  DropUnit unit = DropUnit::kElement;
  RngKey rng;
  std::int64_t first_sample = 0;

  std::string name() const { return unit == DropUnit::kSample ? "drop_path" : "dropout"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    if (residual != kNoValue) gradients.add(ctx, residual, dy);
    const Tensor dx = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
    ctx.run(DropoutArgs{.x = dy, .y = dx, .p = p, .unit = unit, .rng = rng, .first_sample = first_sample});
    gradients.add(ctx, x, dx);
  }
};

Tensor dropped(Context& ctx, const Tensor& input, float p, DropUnit unit, const Tensor& stream) {
  TRIREME_CHECK(p >= 0.0f && p < 1.0f, "dropout: p = {} is not in [0, 1)", p);
  TRIREME_CHECK(!stream.defined() || stream.shape() == input.shape(), "dropout: residual {} does not fit {}",
                stream.shape().to_string(), input.shape().to_string());
  if (!ctx.training || p == 0.0f) return stream.defined() ? add(ctx, input, stream) : input;
  const DType widest = stream.defined() ? wider(input.dtype(), stream.dtype()) : input.dtype();
  const DType dtype = ctx.precision.dtype_of(OpKind::kDropout, widest);
  const Tensor x = cast(ctx, input, dtype);
  const Tensor residual = stream.defined() ? cast(ctx, stream, dtype) : Tensor();
  const RngKey rng = ctx.next_rng();
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  ctx.run(DropoutArgs{.x = x,
                      .residual = residual,
                      .y = y,
                      .p = p,
                      .unit = unit,
                      .rng = rng,
                      .first_sample = ctx.first_sample});
  return recorded(ctx, y,
                  DropoutBackward{.x = x.id(),
                                  .residual = residual.id(),
                                  .p = p,
                                  .unit = unit,
                                  .rng = rng,
                                  .first_sample = ctx.first_sample});
}

}  // namespace

Tensor dropout(Context& ctx, const Tensor& input, float p, const Tensor& residual) {
  return dropped(ctx, input, p, DropUnit::kElement, residual);
}

Tensor drop_path(Context& ctx, const Tensor& input, float p, const Tensor& residual) {
  return dropped(ctx, input, p, DropUnit::kSample, residual);
}

}  // namespace trireme::ops
