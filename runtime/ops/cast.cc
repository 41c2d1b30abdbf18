#include "runtime/ops/cast.h"

#include "runtime/base/error.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

Tensor convert(const Context& ctx, const Tensor& x, DType dtype) {
  const Tensor y = ctx.empty(x.shape(), dtype);
  ctx.run(CastArgs{.x = x, .y = y});
  return y;
}

struct CastBackward {
  DType dtype = DType::kFloat32;  // of the input
  ValueId x = kNoValue;

  std::string name() const { return "cast"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    gradients.add(ctx, x, convert(ctx, gradients.take(y), dtype));
  }
};

}  // namespace

Tensor cast(Context& ctx, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor y = convert(ctx, x, dtype);
  return x.id() == kNoValue ? y : recorded(ctx, y, CastBackward{.dtype = x.dtype(), .x = x.id()});
}

Tensor parameter(Context& ctx, ParamRef ref, DType dtype) {
  const auto [value, center] = centered_parameter(ctx, ref, dtype);
  TRIREME_CHECK(center == 0.0f,
                "a parameter {} whose 16-bit working copies are centered at {} is read by an op that does "
                "not add that again: leave ParameterSpec::center at 0",
                value.shape().to_string(), center);
  return value;
}

CenteredParameter centered_parameter(Context& ctx, ParamRef ref, DType dtype) {
  const Tensor value = ctx.parameters->value(ref);
  return {value.dtype() == dtype ? value : convert(ctx, value, dtype), ctx.parameters->center(ref)};
}

}  // namespace trireme::ops
