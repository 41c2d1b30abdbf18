#include "runtime/ops/layer_norm.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct NormBackward {
  const char* op;
  Tensor x, mean, rstd;  // RMS norm: without mean and beta
  ParamRef gamma, beta;

  std::string name() const { return op; }
  std::vector<Tensor> saved() const {
    return mean.defined() ? std::vector{x, mean, rstd} : std::vector{x, rstd};
  }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    const Tensor existing = gradients.has(x.id()) ? gradients.take(x.id()) : Tensor();
    Tensor dx = existing.defined() && existing.unique() ? existing
                : dy.unique()                           ? dy
                                                        : ctx.empty(x.shape(), x.dtype());
    const GradientTarget dgamma = ctx.parameters->gradient(gamma);
    const GradientTarget dbeta = mean.defined() ? ctx.parameters->gradient(beta) : GradientTarget();
    const auto [g, center] = centered_parameter(ctx, gamma, x.dtype());
    LayerNormBwdArgs args{.dy = dy.rows(),
                          .x = x.rows(),
                          .gamma = g,
                          .rstd = rstd,
                          .dx = dx.rows(),
                          .dgamma = dgamma.view(),
                          .dbeta = dbeta.view(),
                          .dgamma_mode = dgamma.mode,
                          .dbeta_mode = dbeta.mode,
                          .gamma_center = center};
    if (mean.defined()) args.mean = mean;
    if (existing.defined()) args.dx_add = existing.rows();
    ctx.run(args);
    gradients.add(ctx, x.id(), std::move(dx));
  }
};

/// RMS norm where there is no beta.
Tensor normalized(Context& ctx, const char* op, OpKind kind, const Tensor& input, ParamRef gamma,
                  ParamRef beta, float epsilon) {
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(kind, input.dtype()));
  const auto [g, center] = centered_parameter(ctx, gamma, x.dtype());
  TRIREME_CHECK(x.shape().rank() >= 1 && g.shape() == Shape{x.shape().dim(-1)},
                "{}: input {} does not fit gamma {}", op, x.shape().to_string(), g.shape().to_string());
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  LayerNormFwdArgs args{.x = x.rows(), .gamma = g, .y = y.rows(), .epsilon = epsilon, .gamma_center = center};
  NormBackward backward{.op = op, .x = x, .gamma = gamma, .beta = beta};
  Tensor b;  // lives until the kernel has run
  if (beta.defined()) {
    b = parameter(ctx, beta, x.dtype());
    TRIREME_CHECK(b.shape() == g.shape(), "{}: gamma {} does not fit beta {}", op, g.shape().to_string(),
                  b.shape().to_string());
    backward.mean = ctx.empty({x.shape().num_rows()});
    args.beta = b;
    args.mean = backward.mean;
  }
  backward.rstd = ctx.empty({x.shape().num_rows()});
  args.rstd = backward.rstd;
  ctx.run(args);
  return recorded(ctx, y, std::move(backward));
}

}  // namespace

Tensor layer_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta, float epsilon) {
  return normalized(ctx, "layer_norm", OpKind::kLayerNorm, input, gamma, beta, epsilon);
}

Tensor rms_norm(Context& ctx, const Tensor& input, ParamRef gamma, float epsilon) {
  return normalized(ctx, "rms_norm", OpKind::kRmsNorm, input, gamma, {}, epsilon);
}

}  // namespace trireme::ops
