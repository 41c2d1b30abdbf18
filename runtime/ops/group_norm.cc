#include "runtime/ops/group_norm.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct GroupNormBackward {
  Tensor x, mean, rstd;
  ParamRef gamma, beta;
  Activation activation = Activation::kNone;

  std::string name() const { return activation == Activation::kNone ? "group_norm" : "group_norm_silu"; }
  std::vector<Tensor> saved() const { return {x, mean, rstd}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    const Tensor existing = gradients.has(x.id()) ? gradients.take(x.id()) : Tensor();
    Tensor dx = existing.defined() && existing.unique() ? existing
                : dy.unique()                           ? dy
                                                        : ctx.empty(x.shape(), x.dtype());
    const Tensor g = parameter(ctx, gamma, x.dtype()), b = parameter(ctx, beta, x.dtype());
    const GradientTarget dgamma = ctx.parameters->gradient(gamma), dbeta = ctx.parameters->gradient(beta);
    ctx.run(GroupNormBwdArgs{.dy = dy,
                             .x = x,
                             .gamma = g,
                             .beta = b,
                             .mean = mean,
                             .rstd = rstd,
                             .dx_add = existing,
                             .dx = dx,
                             .dgamma = dgamma.view(),
                             .dbeta = dbeta.view(),
                             .dgamma_mode = dgamma.mode,
                             .dbeta_mode = dbeta.mode,
                             .activation = activation});
    gradients.add(ctx, x.id(), std::move(dx));
  }
};

}  // namespace

Tensor group_norm(Context& ctx, const Tensor& input, ParamRef weight, ParamRef bias, std::int64_t groups,
                  float epsilon, Activation activation) {
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kGroupNorm, input.dtype()));
  const Tensor gamma = parameter(ctx, weight, x.dtype()), beta = parameter(ctx, bias, x.dtype());
  const Shape& shape = x.shape();
  TRIREME_CHECK(shape.rank() >= 2 && groups >= 1 && shape.dim(-1) % groups == 0,
                "group_norm: input {} is not [B, ..., C] with C a multiple of {} groups", shape.to_string(),
                groups);
  TRIREME_CHECK(gamma.shape() == Shape{shape.dim(-1)} && beta.shape() == gamma.shape(),
                "group_norm: input {} does not fit weight {} and bias {}", shape.to_string(),
                gamma.shape().to_string(), beta.shape().to_string());
  TRIREME_CHECK(activation == Activation::kNone || activation == Activation::kSilu,
                "group_norm: applies SiLU or no activation; run others with ops::activation");
  const Tensor y = ctx.empty(shape, x.dtype());
  const Tensor mean = ctx.empty({shape[0], groups}), rstd = ctx.empty({shape[0], groups});
  ctx.run(GroupNormFwdArgs{.x = x,
                           .gamma = gamma,
                           .beta = beta,
                           .y = y,
                           .mean = mean,
                           .rstd = rstd,
                           .epsilon = epsilon,
                           .activation = activation});
  return recorded(
      ctx, y,
      GroupNormBackward{
          .x = x, .mean = mean, .rstd = rstd, .gamma = weight, .beta = bias, .activation = activation});
}

}  // namespace trireme::ops
