#include "runtime/ops/conv2d.h"

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct Conv2dParameterGradients {
  Tensor dy, x;
  ParamRef weight, bias;
  ConvGeometry geometry;
  MathMode math = MathMode::kFp32;

  void run(Context& ctx) const {
    if (bias.defined()) {
      const GradientTarget target = ctx.parameters->gradient(bias);
      if (target.mode != GradientMode::kIgnore) {
        ctx.run(ColumnSumArgs{.x = dy.rows(), .out = target.tensor, .mode = target.mode});
      }
    }
    const GradientTarget target = ctx.parameters->gradient(weight);
    if (target.mode == GradientMode::kIgnore) return;
    ctx.run(Conv2dBwdWeightArgs{
        .dy = dy, .x = x, .dweight = target.tensor, .geometry = geometry, .math = math, .mode = target.mode});
  }
};

struct Conv2dBackward {
  Tensor x;
  ParamRef weight, bias;
  ConvGeometry geometry;
  MathMode math = MathMode::kFp32;

  std::string name() const { return "conv2d"; }
  std::vector<Tensor> saved() const { return {x}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    run_or_defer(ctx, Conv2dParameterGradients{dy, x, weight, bias, geometry, math});
    if (x.id() == kNoValue) return;
    const Tensor w = parameter(ctx, weight, x.dtype());
    const Tensor existing = gradients.has(x.id()) ? gradients.take(x.id()) : Tensor();  // of another use
    Tensor dx = existing.defined() && existing.unique() ? existing : ctx.empty(x.shape(), x.dtype());
    ctx.run(Conv2dBwdDataArgs{
        .dy = dy, .weight = w, .dx_add = existing, .dx = dx, .geometry = geometry, .math = math});
    gradients.add(ctx, x.id(), std::move(dx));
  }
};

// The shape of the result. Throws if the shapes do not fit.
Shape result_shape(const Shape& x, const Shape& w, const Tensor& bias, const ConvGeometry& geometry) {
  TRIREME_CHECK(
      geometry.stride >= 1 && geometry.padding >= 0 && geometry.padding_after >= -1 && geometry.groups >= 1,
      "conv2d: stride {} and groups {} must be positive, padding {} and {} not negative", geometry.stride,
      geometry.groups, geometry.padding, geometry.padding_after);
  TRIREME_CHECK(
      x.rank() == 4 && w.rank() == 4 && x[3] == w[1] * geometry.groups && w[0] % geometry.groups == 0,
      "conv2d: input {} does not fit weight {} of {} group(s) (want [B, H, W, C] and [O, C / groups, "
      "R, S], O a multiple of groups)",
      x.to_string(), w.to_string(), geometry.groups);
  TRIREME_CHECK(!bias.defined() || bias.shape() == Shape{w[0]}, "conv2d: bias {} does not fit {} outputs",
                bias.shape().to_string(), w[0]);
  const std::int64_t height = geometry.out_size(x[1], w[2]), width = geometry.out_size(x[2], w[3]);
  TRIREME_CHECK(height > 0 && width > 0,
                "conv2d: a kernel of {} x {} is larger than input {} with padding {} and {}", w[2], w[3],
                x.to_string(), geometry.padding, geometry.end_padding());
  return {x[0], height, width, w[0]};
}

}  // namespace

Tensor conv2d(Context& ctx, const Tensor& input, ParamRef weight, const Conv2dOptions& options) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kConv2d, input.dtype());
  const Tensor w = parameter(ctx, weight, dtype);
  const Tensor b = options.bias.defined() ? parameter(ctx, options.bias, dtype) : Tensor();
  const Shape shape = result_shape(input.shape(), w.shape(), b, options.geometry);
  const Tensor x = cast(ctx, input, dtype);
  const Tensor y = ctx.empty(shape, dtype);
  const Conv2dFwdArgs args{.x = x,
                           .weight = w,
                           .bias = b,
                           .y = y,
                           .geometry = options.geometry,
                           .math = ctx.precision.math_of(OpKind::kConv2d)};
  ctx.run(args);
  return recorded(
      ctx, y,
      Conv2dBackward{
          .x = x, .weight = weight, .bias = options.bias, .geometry = options.geometry, .math = args.math});
}

}  // namespace trireme::ops
