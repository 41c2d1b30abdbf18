#include "runtime/ops/low_rank.h"

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/shared_gradients.h"
#include "runtime/saved_tensor.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

/// Scales a tensor of the width of the rank, which is small, so the pass is cheap.
void scale(const Context& ctx, const Tensor& x, float factor) {
  if (factor != 1.0f) ctx.run(ScaleArgs{.x = x, .constant = factor});
}

/// left^T right: for B dy^T (s x A^T), and for A (s dy B)^T x.
struct FactorGradient {
  Tensor left, right;
  ParamRef factor;
  MathMode math = MathMode::kFp32;

  void run(Context& ctx) const { write(ctx, ctx.parameters->gradient(factor)); }
  void write(const Context& ctx, const GradientTarget& target) const {
    if (target.mode == GradientMode::kIgnore) return;
    ctx.run(MatmulArgs{.a = left.rows(),
                       .b = right.rows(),
                       .d = target.tensor,
                       .transpose_a = Transpose::kYes,
                       .math = math,
                       .mode = target.mode});
  }
};

/// The factor that all chunks read.
enum class SharedFactor : std::uint8_t { kNone, kA, kB };

struct LowRankBackward {
  SavedTensor x;
  Tensor inner;
  Adapter adapter;
  MathMode math = MathMode::kFp32;
  ValueId residual = kNoValue;
  SharedFactor shared = SharedFactor::kNone;
  std::shared_ptr<SharedGradients> shared_gradients;

  std::string name() const { return "low_rank"; }
  std::vector<Tensor> saved() const { return {x.kept(), inner}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    gradients.add(ctx, residual, dy);
    const Tensor dinner = ctx.empty(inner.shape(), inner.dtype());
    ctx.run(MatmulArgs{
        .a = dy.rows(), .b = parameter(ctx, adapter.b, inner.dtype()), .d = dinner.rows(), .math = math});
    scale(ctx, dinner, adapter.scale);
    add(ctx, {.left = dy, .right = inner, .factor = adapter.b, .math = math}, shared == SharedFactor::kB);
    add(ctx, {.left = dinner, .right = x.take(ctx), .factor = adapter.a, .math = math},
        shared == SharedFactor::kA);
    if (x.id() == kNoValue) return;
    const Tensor a = parameter(ctx, adapter.a, inner.dtype());
    const bool is_partial = shared == SharedFactor::kA;
    const Tensor dx = ctx.empty(x.shape(), is_partial ? DType::kFloat32 : inner.dtype());
    if (is_partial) {
      ctx.run(ProductSumArgs{.products = {{.a = dinner.rows(), .b = a}}, .d = dx.rows(), .math = math});
    } else {
      ctx.run(MatmulArgs{.a = dinner.rows(), .b = a, .d = dx.rows(), .math = math});
    }
    gradients.add(ctx, x.id(), dx);
  }

 private:
  void add(Context& ctx, FactorGradient gradient, bool is_shared) const {
    if (!is_shared) return run_or_defer(ctx, std::move(gradient));
    const Tensor partial = ctx.empty({gradient.left.shape().dim(-1), gradient.right.shape().dim(-1)});
    gradient.write(ctx, {partial, GradientMode::kOverwrite});
    shared_gradients->add(ctx, gradient.factor, partial);
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

/// s x A^T
Tensor inner_product(Context& ctx, const Tensor& x, const Tensor& a, float factor, MathMode math) {
  const Tensor inner = ctx.empty(x.shape().with_last(a.shape().dim(0)), x.dtype());
  ctx.run(MatmulArgs{.a = x.rows(), .b = a, .d = inner.rows(), .transpose_b = Transpose::kYes, .math = math});
  scale(ctx, inner, factor);
  return inner;
}

}  // namespace

Tensor low_rank(Context& ctx, const Tensor& input, const Adapter& adapter, const Tensor& residual_input,
                LinearCut cut) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kLinear, input.dtype());
  const MathMode math = ctx.precision.math_of(OpKind::kLinear);
  const Tensor a = parameter(ctx, adapter.a, dtype), b = parameter(ctx, adapter.b, dtype);
  check_low_rank_shapes(input, a, b, residual_input);
  const Tensor x = cast(ctx, input, dtype);
  const Tensor residual = residual_input.defined() ? cast(ctx, residual_input, dtype) : Tensor();
  const Tensor inner = inner_product(ctx, x, a, adapter.scale, math);
  const Tensor y = ctx.empty(x.shape().with_last(b.shape().dim(0)), dtype);
  MatmulArgs outer{.a = inner.rows(), .b = b, .d = y.rows(), .transpose_b = Transpose::kYes, .math = math};
  if (residual.defined()) outer.residual = residual.rows();
  ctx.run(outer);
  const bool is_cut = cut == LinearCut::kColumns;
  return recorded(ctx, y,
                  LowRankBackward{.x = SavedTensor(ctx, x),
                                  .inner = inner,
                                  .adapter = adapter,
                                  .math = math,
                                  .residual = residual.id(),
                                  .shared = is_cut ? SharedFactor::kA : SharedFactor::kNone,
                                  .shared_gradients = is_cut ? ctx.shared_gradients : nullptr});
}

RowsLowRank rows_low_rank(Context& ctx, const Tensor& x, const Adapter& adapter) {
  const MathMode math = ctx.precision.math_of(OpKind::kLinear);
  const Tensor a = parameter(ctx, adapter.a, x.dtype()), b = parameter(ctx, adapter.b, x.dtype());
  check_low_rank_shapes(x, a, b, {});
  RowsLowRank rows{.inner = inner_product(ctx, x, a, adapter.scale, math), .b = b};
  if (ctx.tape == nullptr) return rows;
  LowRankBackward backward{.x = SavedTensor(ctx, x),
                           .inner = rows.inner,
                           .adapter = adapter,
                           .math = math,
                           .shared = SharedFactor::kB,
                           .shared_gradients = ctx.shared_gradients};
  rows.partial = ctx.tape->new_value();
  ctx.tape->record(std::make_unique<RecordedOp<LowRankBackward>>(rows.partial, std::move(backward)));
  return rows;
}

}  // namespace trireme::ops
