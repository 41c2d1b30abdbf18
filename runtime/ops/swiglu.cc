#include "runtime/ops/swiglu.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/quantize.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct SwigluBackward {
  Tensor x;
  ParamRef writer;  // undefined: the gradient is a tensor

  std::string name() const { return "swiglu"; }
  std::vector<Tensor> saved() const { return {x}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    if (writer.defined()) {
      Fp8Codes dx = empty_codes(ctx, x.shape(), Fp8Operand::kOutputGradient, CodeOrder::kBoth);
      ctx.run(SwigluBwdArgs{.dy = dy.rows(),
                            .x = x.rows(),
                            .dx = {},
                            .out = output_to(ctx, dx, writer, Fp8Operand::kOutputGradient)});
      return gradients.set_codes(x.id(), std::move(dx));
    }
    Tensor dx = x.unique() ? x : ctx.empty(x.shape(), x.dtype());
    ctx.run(SwigluBwdArgs{.dy = dy.rows(), .x = x.rows(), .dx = dx.rows(), .out = {}});
    gradients.add(ctx, x.id(), std::move(dx));
  }
};

// The input in the op's dtype.
Tensor cast_input(Context& ctx, const Tensor& input) {
  TRIREME_CHECK(input.shape().rank() >= 2 && input.shape().dim(-1) % 2 == 0,
                "swiglu: input {} is not [..., 2 F], a gate beside what it scales",
                input.shape().to_string());
  return cast(ctx, input, ctx.precision.dtype_of(OpKind::kSwiglu, input.dtype()));
}

// True if a layer of the weight computes in fp8 from numbers of `dtype`.
bool takes_codes(Context& ctx, ParamRef weight, DType dtype) {
  return weight.defined() && multiplies_in_fp8(ctx, weight) && ctx.parameters->adapter(weight) == nullptr &&
         ctx.precision.dtype_of(OpKind::kLinear, dtype) == dtype;
}

}  // namespace

Tensor swiglu(Context& ctx, const Tensor& input) {
  return swiglu(ctx, input, {}).x;
}

LinearInput swiglu(Context& ctx, const Tensor& input, const SwigluNeighbours& neighbours) {
  const Tensor x = cast_input(ctx, input);
  const Shape shape = x.shape().with_last(x.shape().dim(-1) / 2);
  SwigluBackward backward{.x = x, .writer = {}};
  if (x.id() == input.id() && x.id() != kNoValue && takes_codes(ctx, neighbours.writer, x.dtype())) {
    backward.writer = neighbours.writer;
  }
  if (!takes_codes(ctx, neighbours.reader, x.dtype())) {
    const Tensor y = ctx.empty(shape, x.dtype());
    ctx.run(SwigluFwdArgs{.x = x.rows(), .y = y.rows(), .out = {}});
    return recorded(ctx, y, std::move(backward));
  }
  Fp8Codes codes =
      empty_codes(ctx, shape, Fp8Operand::kInput, ctx.tape != nullptr ? CodeOrder::kBoth : CodeOrder::kRows);
  ctx.run(SwigluFwdArgs{
      .x = x.rows(), .y = {}, .out = output_to(ctx, codes, neighbours.reader, Fp8Operand::kInput)});
  const ValueId id = recorded(ctx, Tensor(), std::move(backward)).id();
  return {std::move(codes), id, x.dtype()};
}

}  // namespace trireme::ops
