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

struct CastNode : Node {
  DType dtype = DType::kFloat32;  // of the input
  ValueId x = kNoValue, y = kNoValue;

  std::string name() const override { return "cast"; }
  ValueId output() const override { return y; }
  std::vector<Tensor> saved() const override { return {}; }

  void backward(Context& ctx, Gradients& gradients) override {
    gradients.add(ctx, x, convert(ctx, gradients.take(y), dtype));
  }
};

}  // namespace

Tensor cast(Context& ctx, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor y = convert(ctx, x, dtype);
  if (ctx.tape == nullptr || x.id() == kNoValue) return y;

  auto node = std::make_unique<CastNode>();
  node->dtype = x.dtype();
  node->x = x.id();
  node->y = ctx.tape->new_value();
  const Tensor result = y.with_id(node->y);
  ctx.tape->record(std::move(node));
  return result;
}

Tensor parameter(Context& ctx, ParamRef ref, DType dtype) {
  const auto [value, center] = centered_parameter(ctx, ref, dtype);
  TRIREME_CHECK(
      center == 0.0f,
      "a parameter {} whose 16-bit working copies are centered at {} is read by an op that does not "
      "add that again: leave ParameterSpec::center at 0",
      value.shape().to_string(), center);
  return value;
}

CenteredParameter centered_parameter(Context& ctx, ParamRef ref, DType dtype) {
  const Tensor value = ctx.parameters->value(ref);
  return {value.dtype() == dtype ? value : convert(ctx, value, dtype), ctx.parameters->center(ref)};
}

}  // namespace trireme::ops
