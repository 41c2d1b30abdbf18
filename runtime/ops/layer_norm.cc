#include "runtime/ops/layer_norm.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct LayerNormBackward {
  Tensor x, mean, rstd;
  ParamRef gamma, beta;

  std::string name() const { return "layer_norm"; }
  std::vector<Tensor> saved() const { return {x, mean, rstd}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    const Tensor existing = gradients.has(x.id()) ? gradients.take(x.id()) : Tensor();
    Tensor dx = existing.defined() && existing.unique() ? existing
                : dy.unique()                           ? dy
                                                        : ctx.empty(x.shape(), x.dtype());
    const GradientTarget dgamma = ctx.parameters->gradient(gamma);
    const GradientTarget dbeta = ctx.parameters->gradient(beta);
    const auto [g, center] = centered_parameter(ctx, gamma, x.dtype());
    LayerNormBwdArgs args{.dy = dy.rows(),
                          .x = x.rows(),
                          .gamma = g,
                          .mean = mean,
                          .rstd = rstd,
                          .dx = dx.rows(),
                          .dgamma = dgamma.view(),
                          .dbeta = dbeta.view(),
                          .dgamma_mode = dgamma.mode,
                          .dbeta_mode = dbeta.mode,
                          .gamma_center = center};
    if (existing.defined()) args.dx_add = existing.rows();
    ctx.run(args);
    gradients.add(ctx, x.id(), std::move(dx));
  }
};

}  // namespace

Tensor layer_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta, float epsilon) {
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kLayerNorm, input.dtype()));
  const auto [g, center] = centered_parameter(ctx, gamma, x.dtype());
  const Tensor b = parameter(ctx, beta, x.dtype());
  TRIREME_CHECK(x.shape().rank() >= 1 && g.shape() == Shape{x.shape().dim(-1)} && b.shape() == g.shape(),
                "layer_norm: input {} does not fit gamma {} and beta {}", x.shape().to_string(),
                g.shape().to_string(), b.shape().to_string());
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  const Tensor mean = ctx.empty({x.shape().num_rows()});
  const Tensor rstd = ctx.empty({x.shape().num_rows()});
  ctx.run(LayerNormFwdArgs{.x = x.rows(),
                           .gamma = g,
                           .beta = b,
                           .y = y.rows(),
                           .mean = mean,
                           .rstd = rstd,
                           .epsilon = epsilon,
                           .gamma_center = center});
  return recorded(ctx, y,
                  LayerNormBackward{.x = x, .mean = mean, .rstd = rstd, .gamma = gamma, .beta = beta});
}

}  // namespace trireme::ops
