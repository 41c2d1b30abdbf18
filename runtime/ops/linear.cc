#include "runtime/ops/linear.h"

#include "runtime/base/error.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

// [..., C] as [rows, C].
ConstTensorView as_matrix(const Tensor& t) {
  return {t.data(), t.dtype(), Shape{t.shape().num_rows(), t.shape().dim(-1)}};
}
TensorView as_mutable_matrix(const Tensor& t) {
  return {t.data(), t.dtype(), Shape{t.shape().num_rows(), t.shape().dim(-1)}};
}

struct LinearNode : Node {
  Tensor x, pre;  // pre only with an activation
  ParamRef weight, bias;
  Activation activation = Activation::kNone;
  ValueId residual = kNoValue;
  ValueId y = kNoValue;

  std::string name() const override { return activation == Activation::kNone ? "linear" : "linear_gelu"; }
  ValueId output() const override { return y; }
  std::vector<Tensor> saved() const override {
    return pre.defined() ? std::vector<Tensor>{x, pre} : std::vector<Tensor>{x};
  }

  void backward(Context& ctx, Gradients& gradients) override {
    Tensor dy = gradients.take(y);
    if (residual != kNoValue) gradients.add(ctx, residual, dy);
    if (activation != Activation::kNone) {
      const Tensor dpre = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
      ctx.backend->activation_bwd(ctx.exec, {.dy = dy, .pre = pre, .dx = dpre, .activation = activation});
      dy = dpre;
      pre = Tensor();
    }
    if (bias.defined()) {
      const GradientTarget target = ctx.parameters->gradient(bias);
      if (target.mode != GradientMode::kIgnore) {
        ctx.backend->column_sum(ctx.exec, {.x = as_matrix(dy), .out = target.tensor, .mode = target.mode});
      }
    }
    const GradientTarget target = ctx.parameters->gradient(weight);
    if (target.mode != GradientMode::kIgnore) {
      ctx.backend->matmul(ctx.exec, {.a = as_matrix(dy),
                                     .b = as_matrix(x),
                                     .d = target.tensor,
                                     .transpose_a = Transpose::kYes,
                                     .mode = target.mode});
    }
    if (x.id() == kNoValue) return;
    const Tensor dx = ctx.empty(x.shape(), x.dtype());
    ctx.backend->matmul(ctx.exec,
                        {.a = as_matrix(dy), .b = ctx.parameters->value(weight), .d = as_mutable_matrix(dx)});
    gradients.add(ctx, x.id(), dx);
  }
};

}  // namespace

Tensor linear(Context& ctx, const Tensor& x, ParamRef weight, const LinearOptions& options) {
  const Tensor w = ctx.parameters->value(weight);
  TRIREME_CHECK(w.shape().rank() == 2 && x.shape().rank() >= 1 && x.shape().dim(-1) == w.shape().dim(1),
                "linear: input {} does not fit weight {} (want [..., K] and [N, K])", x.shape().to_string(),
                w.shape().to_string());
  const std::int64_t n = w.shape().dim(0);
  Shape shape = x.shape().with_last(n);
  const Tensor b = options.bias.defined() ? ctx.parameters->value(options.bias) : Tensor();
  TRIREME_CHECK(!b.defined() || b.shape() == Shape{n}, "linear: bias {} does not fit {} outputs",
                b.shape().to_string(), n);
  TRIREME_CHECK(!options.residual.defined() || options.residual.shape() == shape,
                "linear: residual {} does not fit the result {}", options.residual.shape().to_string(),
                shape.to_string());
  const bool save_pre = ctx.tape != nullptr && options.activation != Activation::kNone;
  const Tensor y = ctx.empty(shape, x.dtype());
  const Tensor pre = save_pre ? ctx.empty(shape, x.dtype()) : Tensor();
  MatmulArgs args{.a = as_matrix(x),
                  .b = w,
                  .d = as_mutable_matrix(y),
                  .transpose_b = Transpose::kYes,
                  .activation = options.activation};
  if (b.defined()) args.bias = b;
  if (pre.defined()) args.pre_activation = as_mutable_matrix(pre);
  if (options.residual.defined()) args.residual = as_matrix(options.residual);
  ctx.backend->matmul(ctx.exec, args);
  if (ctx.tape == nullptr) return y;

  auto node = std::make_unique<LinearNode>();
  node->x = x;
  node->pre = pre;
  node->weight = weight;
  node->bias = options.bias;
  node->activation = options.activation;
  node->residual = options.residual.id();
  node->y = ctx.tape->new_value();
  const Tensor result = y.with_id(node->y);
  ctx.tape->record(std::move(node));
  return result;
}

}  // namespace trireme::ops
