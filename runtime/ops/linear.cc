#include "runtime/ops/linear.h"

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/add.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/linear_gradients.h"
#include "runtime/ops/low_rank.h"
#include "runtime/ops/quantize.h"
#include "runtime/saved_tensor.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct LinearParameterGradients {
  Tensor dy, x;
  Tensor dy_inverse_scale, x_inverse_scale;  // of fp8 codes
  ParamRef weight, bias;
  MathMode math = MathMode::kFp32;

  void run(Context& ctx) const {
    const GradientTarget dbias = bias.defined() ? ctx.parameters->gradient(bias) : GradientTarget{};
    add_linear_gradients(ctx, ctx.parameters->gradient(weight), dbias,
                         {.dy = dy.rows(),
                          .x = x.rows(),
                          .math = math,
                          .dy_inverse_scale = dy_inverse_scale,
                          .x_inverse_scale = x_inverse_scale});
  }
};

struct LinearBackward {
  SavedTensor x;
  Tensor pre;                     // only with an activation
  Tensor x_inverse_scale;         // where x is fp8 codes
  DType dtype = DType::kFloat32;  // of the input and its gradient
  ValueId input = kNoValue;
  ParamRef weight, bias;
  Activation activation = Activation::kNone;
  MathMode math = MathMode::kFp32;
  ValueId residual = kNoValue;
  LinearCut cut = LinearCut::kNone;
  int groups = 1;
  std::shared_ptr<ProductCollector> collector;  // of the input's gradient, or null

  std::string name() const {
    if (activation == Activation::kNone) return "linear";
    if (activation == Activation::kSilu) return "linear_silu";
    return activation == Activation::kTanh ? "linear_tanh" : "linear_gelu";
  }
  std::vector<Tensor> saved() const {
    std::vector<Tensor> tensors{x.kept()};
    if (pre.defined()) tensors.push_back(pre);
    if (x_inverse_scale.defined()) tensors.push_back(x_inverse_scale);
    return tensors;
  }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    Tensor dy = gradients.take(y);
    if (residual != kNoValue) gradients.add(ctx, residual, dy);
    if (activation != Activation::kNone) {
      const Tensor dpre = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
      ctx.run(ActivationBwdArgs{.dy = dy, .pre = pre, .dx = dpre, .activation = activation});
      dy = dpre;
      pre = Tensor();
    }
    if (x_inverse_scale.defined()) return backward_fp8(ctx, gradients, std::move(dy));
    run_or_defer(ctx, LinearParameterGradients{
                          .dy = dy, .x = x.take(ctx), .weight = weight, .bias = bias, .math = math});
    if (input == kNoValue) return;
    const Tensor w = parameter(ctx, weight, dtype);
    if (cut == LinearCut::kColumns) return backward_partial(ctx, gradients, dy, w);
    const Tensor dx = ctx.empty(x.shape(), dtype);
    ctx.run(MatmulArgs{.a = dy.rows(), .b = w, .d = dx.rows(), .math = math});
    gradients.add(ctx, input, dx);
  }

  void backward_partial(Context& ctx, Gradients& gradients, const Tensor& dy, const Tensor& w) const {
    if (collector != nullptr) {
      return collector->collect(ctx, gradients, {.dy = dy, .weight = w, .math = math, .groups = groups});
    }
    const Tensor dx = ctx.empty(x.shape());
    ctx.run(ProductSumArgs{
        .products = {{.a = dy.rows(), .b = w}}, .d = dx.rows(), .math = math, .groups = groups});
    gradients.add(ctx, input, dx);
  }

  // Sums the bias gradient from dy at once, so that only the codes of dy are kept for the weight gradient.
  void backward_fp8(Context& ctx, Gradients& gradients, Tensor dy) {
    if (bias.defined()) {
      const GradientTarget dbias = ctx.parameters->gradient(bias);
      if (dbias.mode != GradientMode::kIgnore) {
        ctx.run(ColumnSumArgs{.x = dy.rows(), .out = dbias.tensor, .mode = dbias.mode});
      }
    }
    const Quantized dy8 = quantize(ctx, dy, weight, Fp8Operand::kOutputGradient);
    dy = Tensor();
    run_or_defer(ctx, LinearParameterGradients{.dy = dy8.codes,
                                               .x = x.take(ctx),
                                               .dy_inverse_scale = dy8.inverse_scale,
                                               .x_inverse_scale = x_inverse_scale,
                                               .weight = weight,
                                               .bias = {},
                                               .math = math});
    if (input == kNoValue) return;
    const Quantized w8 = quantize(ctx, parameter(ctx, weight, dtype), weight, Fp8Operand::kWeight);
    const Tensor dx = ctx.empty(x.shape(), dtype);
    ctx.run(MatmulArgs{.a = dy8.codes.rows(),
                       .b = w8.codes,
                       .d = dx.rows(),
                       .math = math,
                       .a_inverse_scale = dy8.inverse_scale,
                       .b_inverse_scale = w8.inverse_scale});
    gradients.add(ctx, input, dx);
  }
};

void check_shapes(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual) {
  TRIREME_CHECK(w.shape().rank() == 2 && x.shape().rank() >= 1 && x.shape().dim(-1) == w.shape().dim(1),
                "linear: input {} does not fit weight {} (want [..., K] and [N, K])", x.shape().to_string(),
                w.shape().to_string());
  const std::int64_t n = w.shape().dim(0);
  TRIREME_CHECK(!bias.defined() || bias.shape() == Shape{n}, "linear: bias {} does not fit {} outputs",
                bias.shape().to_string(), n);
  const Shape shape = x.shape().with_last(n);
  TRIREME_CHECK(!residual.defined() || residual.shape() == shape,
                "linear: residual {} does not fit the result {}", residual.shape().to_string(),
                shape.to_string());
}

// act(x W^T + b) + residual, without the adapter.
Tensor product(Context& ctx, const Tensor& input, ParamRef weight, const LinearOptions& options) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kLinear, input.dtype());
  const Tensor w = parameter(ctx, weight, dtype);
  const Tensor b = options.bias.defined() ? parameter(ctx, options.bias, dtype) : Tensor();
  check_shapes(input, w, b, options.residual);
  const Tensor x = cast(ctx, input, dtype);
  Quantized x8, w8;
  TRIREME_CHECK(options.groups >= 1 && w.shape().dim(0) % options.groups == 0,
                "linear: {} outputs cannot be cut into {} equal groups", w.shape().dim(0), options.groups);
  if (options.cut == LinearCut::kNone && multiplies_in_fp8(ctx, weight)) {
    x8 = quantize(ctx, x, weight, Fp8Operand::kInput);
    w8 = quantize(ctx, w, weight, Fp8Operand::kWeight);
  }
  const Tensor& a = x8.codes.defined() ? x8.codes : x;
  const Tensor residual = options.residual.defined() ? cast(ctx, options.residual, dtype) : Tensor();
  const Shape shape = x.shape().with_last(w.shape().dim(0));
  const bool save_pre = ctx.tape != nullptr && options.activation != Activation::kNone;
  const Tensor y = ctx.empty(shape, dtype);
  const Tensor pre = save_pre ? ctx.empty(shape, dtype) : Tensor();
  MatmulArgs args{.a = a.rows(),
                  .b = w8.codes.defined() ? w8.codes : w,
                  .d = y.rows(),
                  .transpose_b = Transpose::kYes,
                  .math = ctx.precision.math_of(OpKind::kLinear),
                  .bias = b,
                  .activation = options.activation,
                  .a_inverse_scale = x8.inverse_scale,
                  .b_inverse_scale = w8.inverse_scale};
  if (pre.defined()) args.pre_activation = pre.rows();
  if (residual.defined()) args.residual = residual.rows();
  ctx.run(args);
  return recorded(
      ctx, y,
      LinearBackward{.x = SavedTensor(ctx, a),
                     .pre = pre,
                     .x_inverse_scale = x8.inverse_scale,
                     .dtype = dtype,
                     .input = x.id(),
                     .weight = weight,
                     .bias = options.bias,
                     .activation = options.activation,
                     .math = args.math,
                     .residual = residual.id(),
                     .cut = options.cut,
                     .groups = options.groups,
                     .collector = ctx.tape != nullptr ? ctx.tape->collector_of(x.id()) : nullptr});
}

struct AdaptedInputBackward {
  ValueId x = kNoValue;

  std::string name() const { return "adapted_input"; }
  std::vector<Tensor> saved() const { return {}; }
  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    gradients.add(ctx, x, gradients.take(y));
  }
};

// x under a new tape value, without a copy. The gradients of its two products are summed before they are
// added to the gradient of other uses of x. So a projection that backward runs again gives the same bits.
Tensor adapted_input(Context& ctx, const Tensor& x) {
  if (ctx.tape == nullptr || x.id() == kNoValue) return x;
  const Tensor read = recorded(ctx, x.detach(), AdaptedInputBackward{x.id()});
  if (auto rebuilt = ctx.tape->saved_as(x.id())) ctx.tape->save_as(read.id(), std::move(rebuilt));
  return read;
}

// The adapter's result is the residual of the product with the weight, so the sum is rounded once. An
// activation is applied after both.
Tensor adapted(Context& ctx, const Tensor& input, ParamRef weight, const LinearOptions& options,
               const Adapter& adapter) {
  const Tensor x =
      adapted_input(ctx, cast(ctx, input, ctx.precision.dtype_of(OpKind::kLinear, input.dtype())));
  const bool activates = options.activation != Activation::kNone;
  LinearOptions inner = options;
  inner.residual = low_rank(ctx, x, adapter, activates ? Tensor() : options.residual, options.cut);
  inner.activation = Activation::kNone;
  Tensor y = product(ctx, x, weight, inner);
  inner.residual = Tensor();
  if (!activates) return y;
  y = activation(ctx, y, options.activation);
  return options.residual.defined() ? add(ctx, y, options.residual) : y;
}

}  // namespace

Tensor linear(Context& ctx, const Tensor& input, ParamRef weight, const LinearOptions& options) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kLinear, input.dtype());
  if (options.residual.defined() && wider(options.residual.dtype(), dtype) != dtype) {
    LinearOptions narrow = options;  // see precision.h: a wide stream stays wide
    narrow.residual = {};
    return add(ctx, linear(ctx, input, weight, narrow), options.residual);
  }
  const Adapter* adapter = ctx.parameters->adapter(weight);
  return adapter != nullptr ? adapted(ctx, input, weight, options, *adapter)
                            : product(ctx, input, weight, options);
}

RowsLinear rows_linear(Context& ctx, const Tensor& input, ParamRef weight, ParamRef bias) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kLinear, input.dtype());
  const Adapter* adapter = ctx.parameters->adapter(weight);
  const Tensor x = cast(ctx, input, dtype);
  RowsLinear rows{.x = adapter != nullptr ? adapted_input(ctx, x) : x,
                  .weight = parameter(ctx, weight, dtype),
                  .bias = bias.defined() ? parameter(ctx, bias, DType::kFloat32) : Tensor(),
                  .math = ctx.precision.math_of(OpKind::kLinear),
                  .adapter = {}};
  check_shapes(rows.x, rows.weight, rows.bias, {});
  if (adapter != nullptr) rows.adapter = rows_low_rank(ctx, rows.x, *adapter);
  if (ctx.tape == nullptr) return rows;
  rows.partial = ctx.tape->new_value();
  LinearBackward backward{.x = SavedTensor(ctx, rows.x),
                          .dtype = dtype,
                          .input = rows.x.id(),
                          .weight = weight,
                          .bias = bias,
                          .math = rows.math};
  ctx.tape->record(std::make_unique<RecordedOp<LinearBackward>>(rows.partial, std::move(backward)));
  return rows;
}

}  // namespace trireme::ops
