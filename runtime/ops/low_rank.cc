#include "runtime/ops/low_rank.h"

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

/// Scales a tensor of the width of the rank, which is small, so the pass is cheap.
void scale(const Context& ctx, const Tensor& x, float factor) {
  if (factor != 1.0f) ctx.run(ScaleArgs{.x = x, .constant = factor});
}

struct LowRankParameterGradients {
  Tensor dy, inner;         // B's: dy^T (s x A^T)
  Tensor dinner_scaled, x;  // A's: (s dy B)^T x
  ParamRef a, b;
  MathMode math = MathMode::kFp32;

  void run(Context& ctx) const {
    add(ctx, b, dy, inner);
    add(ctx, a, dinner_scaled, x);
  }

 private:
  void add(Context& ctx, ParamRef ref, const Tensor& left, const Tensor& right) const {
    const GradientTarget target = ctx.parameters->gradient(ref);
    if (target.mode == GradientMode::kIgnore) return;
    ctx.run(MatmulArgs{.a = left.rows(),
                       .b = right.rows(),
                       .d = target.tensor,
                       .transpose_a = Transpose::kYes,
                       .math = math,
                       .mode = target.mode});
  }
};

struct LowRankBackward {
  Tensor x, inner;
  Adapter adapter;
  MathMode math = MathMode::kFp32;
  ValueId residual = kNoValue;

  std::string name() const { return "low_rank"; }
  std::vector<Tensor> saved() const { return {x, inner}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    gradients.add(ctx, residual, dy);
    const Tensor dinner = ctx.empty(inner.shape(), inner.dtype());
    ctx.run(MatmulArgs{
        .a = dy.rows(), .b = parameter(ctx, adapter.b, x.dtype()), .d = dinner.rows(), .math = math});
    scale(ctx, dinner, adapter.scale);
    run_or_defer(ctx, LowRankParameterGradients{.dy = dy,
                                                .inner = inner,
                                                .dinner_scaled = dinner,
                                                .x = x,
                                                .a = adapter.a,
                                                .b = adapter.b,
                                                .math = math});
    if (x.id() == kNoValue) return;
    const Tensor dx = ctx.empty(x.shape(), x.dtype());
    ctx.run(MatmulArgs{
        .a = dinner.rows(), .b = parameter(ctx, adapter.a, x.dtype()), .d = dx.rows(), .math = math});
    gradients.add(ctx, x.id(), dx);
  }
};

void check_low_rank_shapes(const Tensor& x, const Tensor& a, const Tensor& b, const Tensor& residual) {
  TRIREME_CHECK(a.shape().rank() == 2 && b.shape().rank() == 2 && x.shape().rank() >= 1 &&
                    x.shape().dim(-1) == a.shape().dim(1) && a.shape().dim(0) == b.shape().dim(1),
                "low_rank: input {} does not fit A {} and B {} (want [..., K], [R, K] and [N, R])",
                x.shape().to_string(), a.shape().to_string(), b.shape().to_string());
  const Shape shape = x.shape().with_last(b.shape().dim(0));
  TRIREME_CHECK(!residual.defined() || residual.shape() == shape,
                "low_rank: residual {} does not fit the result {}", residual.shape().to_string(),
                shape.to_string());
}

}  // namespace

Tensor low_rank(Context& ctx, const Tensor& input, const Adapter& adapter, const Tensor& residual_input) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kLinear, input.dtype());
  const MathMode math = ctx.precision.math_of(OpKind::kLinear);
  const Tensor a = parameter(ctx, adapter.a, dtype), b = parameter(ctx, adapter.b, dtype);
  check_low_rank_shapes(input, a, b, residual_input);
  const Tensor x = cast(ctx, input, dtype);
  const Tensor residual = residual_input.defined() ? cast(ctx, residual_input, dtype) : Tensor();
  const Tensor inner = ctx.empty(x.shape().with_last(a.shape().dim(0)), dtype);
  ctx.run(MatmulArgs{.a = x.rows(), .b = a, .d = inner.rows(), .transpose_b = Transpose::kYes, .math = math});
  scale(ctx, inner, adapter.scale);
  const Tensor y = ctx.empty(x.shape().with_last(b.shape().dim(0)), dtype);
  MatmulArgs outer{.a = inner.rows(), .b = b, .d = y.rows(), .transpose_b = Transpose::kYes, .math = math};
  if (residual.defined()) outer.residual = residual.rows();
  ctx.run(outer);
  return recorded(
      ctx, y,
      LowRankBackward{.x = x, .inner = inner, .adapter = adapter, .math = math, .residual = residual.id()});
}

}  // namespace trireme::ops
