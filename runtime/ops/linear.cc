#include "runtime/ops/linear.h"

#include <utility>

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
  Tensor dy, x;                              // fp8: transposed codes
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
  SavedTensor x;                  // in fp8 its transposed codes
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
    if (gradients.has_codes(y)) {
      TRIREME_CHECK(!bias.defined() && residual == kNoValue && activation == Activation::kNone,
                    "linear: bias, residual and activation need the gradient of the result, not its codes");
      return backward_fp8(ctx, gradients, gradients.take_codes(y));
    }
    Tensor dy = gradients.take(y);
    if (residual != kNoValue) gradients.add(ctx, residual, dy);
    if (activation != Activation::kNone) {
      const Tensor dpre = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
      ctx.run(ActivationBwdArgs{.dy = dy, .pre = pre, .dx = dpre, .activation = activation});
      dy = dpre;
      pre = Tensor();
    }
    if (x_inverse_scale.defined()) return backward_fp8(ctx, gradients, codes_of(ctx, std::move(dy)));
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
  Fp8Codes codes_of(Context& ctx, Tensor dy) const {
    if (bias.defined()) {
      const GradientTarget dbias = ctx.parameters->gradient(bias);
      if (dbias.mode != GradientMode::kIgnore) {
        ctx.run(ColumnSumArgs{.x = dy.rows(), .out = dbias.tensor, .mode = dbias.mode});
      }
    }
    return quantize(ctx, dy, weight, Fp8Operand::kOutputGradient, CodeOrder::kBoth);
  }

  void backward_fp8(Context& ctx, Gradients& gradients, Fp8Codes dy) {
    run_or_defer(ctx, LinearParameterGradients{.dy = std::exchange(dy.turned, {}),
                                               .x = x.take(ctx),
                                               .dy_inverse_scale = dy.inverse_scale,
                                               .x_inverse_scale = x_inverse_scale,
                                               .weight = weight,
                                               .bias = {},
                                               .math = math});
    if (input == kNoValue) return;
    const Tensor w = parameter(ctx, weight, dtype);
    const Fp8Codes w8 = weight_codes(ctx, w, weight, CodeOrder::kTurned);
    const Tensor dx = ctx.empty(dy.codes.shape().with_last(w.shape().dim(1)), dtype);
    ctx.run(MatmulArgs{.a = dy.codes.rows(),
                       .b = w8.turned,
                       .d = dx.rows(),
                       .transpose_b = Transpose::kYes,
                       .math = math,
                       .a_inverse_scale = dy.inverse_scale,
                       .b_inverse_scale = w8.inverse_scale});
    gradients.add(ctx, input, dx);
  }
};

void check_shapes(const Shape& x, const Tensor& w, const Tensor& bias, const Tensor& residual) {
  TRIREME_CHECK(w.shape().rank() == 2 && x.rank() >= 1 && x.dim(-1) == w.shape().dim(1),
                "linear: input {} does not fit weight {} (want [..., K] and [N, K])", x.to_string(),
                w.shape().to_string());
  const std::int64_t n = w.shape().dim(0);
  TRIREME_CHECK(!bias.defined() || bias.shape() == Shape{n}, "linear: bias {} does not fit {} outputs",
                bias.shape().to_string(), n);
  const Shape shape = x.with_last(n);
  TRIREME_CHECK(!residual.defined() || residual.shape() == shape,
                "linear: residual {} does not fit the result {}", residual.shape().to_string(),
                shape.to_string());
}

// The dtype of a linear layer's result.
DType dtype_for(const Context& ctx, const LinearInput& input) {
  return input.x.defined() ? ctx.precision.dtype_of(OpKind::kLinear, input.x.dtype()) : input.dtype;
}

// The codes of the input of an fp8 product: made here, unless they came with it.
Fp8Codes input_codes(Context& ctx, const LinearInput& input, const Tensor& x, ParamRef weight) {
  if (!x.defined()) return input.codes;
  return quantize(ctx, x, weight, Fp8Operand::kInput,
                  ctx.tape != nullptr ? CodeOrder::kBoth : CodeOrder::kRows);
}

// act(x W^T + b) + residual, without the adapter.
Tensor product(Context& ctx, const LinearInput& input, ParamRef weight, const LinearOptions& options) {
  const DType dtype = dtype_for(ctx, input);
  const Tensor w = parameter(ctx, weight, dtype);
  const Tensor b = options.bias.defined() ? parameter(ctx, options.bias, dtype) : Tensor();
  const Tensor x = input.x.defined() ? cast(ctx, input.x, dtype) : Tensor();
  const Shape in = x.defined() ? x.shape() : input.codes.codes.shape();
  check_shapes(in, w, b, options.residual);
  Fp8Codes x8, w8;
  TRIREME_CHECK(options.groups >= 1 && w.shape().dim(0) % options.groups == 0,
                "linear: {} outputs cannot be cut into {} equal groups", w.shape().dim(0), options.groups);
  const bool in_fp8 = options.cut == LinearCut::kNone && multiplies_in_fp8(ctx, weight);
  if (in_fp8) {
    x8 = input_codes(ctx, input, x, weight);
    w8 = weight_codes(ctx, w, weight, CodeOrder::kRows);
  }
  const Tensor residual = options.residual.defined() ? cast(ctx, options.residual, dtype) : Tensor();
  const Shape shape = in.with_last(w.shape().dim(0));
  const bool save_pre = ctx.tape != nullptr && options.activation != Activation::kNone;
  const Tensor y = ctx.empty(shape, dtype);
  const Tensor pre = save_pre ? ctx.empty(shape, dtype) : Tensor();
  MatmulArgs args{.a = in_fp8 ? x8.codes.rows() : x.rows(),
                  .b = in_fp8 ? w8.codes : w,
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
  const ValueId id = x.defined() ? x.id() : input.id;
  return recorded(ctx, y,
                  LinearBackward{.x = SavedTensor(ctx, in_fp8 ? x8.turned : x),
                                 .pre = pre,
                                 .x_inverse_scale = x8.inverse_scale,
                                 .dtype = dtype,
                                 .input = id,
                                 .weight = weight,
                                 .bias = options.bias,
                                 .activation = options.activation,
                                 .math = args.math,
                                 .residual = residual.id(),
                                 .cut = options.cut,
                                 .groups = options.groups,
                                 .collector = ctx.tape != nullptr ? ctx.tape->collector_of(id) : nullptr});
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

Tensor linear(Context& ctx, const LinearInput& input, ParamRef weight, const LinearOptions& options) {
  const DType dtype = dtype_for(ctx, input);
  if (options.residual.defined() && wider(options.residual.dtype(), dtype) != dtype) {
    LinearOptions narrow = options;  // see precision.h: a wide stream stays wide
    narrow.residual = {};
    return add(ctx, linear(ctx, input, weight, narrow), options.residual);
  }
  const Adapter* adapter = ctx.parameters->adapter(weight);
  return adapter != nullptr ? adapted(ctx, input.x, weight, options, *adapter)
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
  check_shapes(rows.x.shape(), rows.weight, rows.bias, {});
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
