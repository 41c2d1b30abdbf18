#include "runtime/ops/batch_norm.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct BatchNormBackward {
  Tensor x, result, mean, rstd;  // result: saved for a rectifier behind a residual
  ParamRef gamma, beta;
  Rectify rectify = Rectify::kNo;
  ValueId residual = kNoValue;

  std::string name() const { return rectify == Rectify::kYes ? "batch_norm_relu" : "batch_norm"; }
  std::vector<Tensor> saved() const {
    return result.defined() ? std::vector<Tensor>{x, mean, rstd, result} : std::vector<Tensor>{x, mean, rstd};
  }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    Tensor dy = gradients.take(y);
    Tensor dx, dresidual;
    if (residual != kNoValue && rectify == Rectify::kYes) {
      dresidual = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
      dx = ctx.empty(x.shape(), x.dtype());
    } else {
      dx = residual == kNoValue && dy.unique() ? dy : ctx.empty(x.shape(), x.dtype());
    }
    const GradientTarget dgamma = ctx.parameters->gradient(gamma);
    const GradientTarget dbeta = ctx.parameters->gradient(beta);
    const Tensor g = parameter(ctx, gamma, x.dtype()), b = parameter(ctx, beta, x.dtype());
    ctx.run(BatchNormBwdArgs{.dy = dy,
                             .x = x,
                             .y = result,
                             .gamma = g,
                             .beta = b,
                             .mean = mean,
                             .rstd = rstd,
                             .dx = dx,
                             .dresidual = dresidual,
                             .dgamma = dgamma.view(),
                             .dbeta = dbeta.view(),
                             .dgamma_mode = dgamma.mode,
                             .dbeta_mode = dbeta.mode,
                             .rectify = rectify});
    if (residual != kNoValue) {
      Tensor gradient = dresidual.defined() ? std::move(dresidual) : dy;
      dresidual = dy = Tensor();  // free the reference, so that the next addition may write in place
      gradients.add(ctx, residual, std::move(gradient));
    }
    gradients.add(ctx, x.id(), std::move(dx));
  }
};

struct Inputs {
  Tensor x, residual, gamma, beta;
};

Inputs prepare(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta,
               const BatchNormOptions& options) {
  TRIREME_CHECK(!options.residual.defined() || options.residual.shape() == input.shape(),
                "batch_norm: residual {} does not fit input {}", options.residual.shape().to_string(),
                input.shape().to_string());
  const DType widest =
      options.residual.defined() ? wider(input.dtype(), options.residual.dtype()) : input.dtype();
  const DType dtype = ctx.precision.dtype_of(OpKind::kBatchNorm, widest);
  Inputs in{.x = cast(ctx, input, dtype),
            .residual = options.residual.defined() ? cast(ctx, options.residual, dtype) : Tensor(),
            .gamma = parameter(ctx, gamma, dtype),
            .beta = parameter(ctx, beta, dtype)};
  TRIREME_CHECK(in.x.shape().rank() >= 1 && in.gamma.shape() == Shape{in.x.shape().dim(-1)} &&
                    in.beta.shape() == in.gamma.shape(),
                "batch_norm: input {} does not fit gamma {} and beta {}", in.x.shape().to_string(),
                in.gamma.shape().to_string(), in.beta.shape().to_string());
  return in;
}

Tensor infer(Context& ctx, const Inputs& in, const BatchNormOptions& options) {
  TRIREME_CHECK(ctx.tape == nullptr, "batch_norm: running statistics have no gradient: record in training");
  TRIREME_CHECK(ctx.statistics != nullptr && options.mean.defined() && options.variance.defined(),
                "batch_norm: there are no running statistics to normalise {} with", in.x.shape().to_string());
  const Tensor mean = ctx.statistics->value(options.mean), variance = ctx.statistics->value(options.variance);
  const Tensor y = ctx.empty(in.x.shape(), in.x.dtype());
  ctx.run(BatchNormInferArgs{.x = in.x,
                             .gamma = in.gamma,
                             .beta = in.beta,
                             .mean = mean,
                             .variance = variance,
                             .residual = in.residual,
                             .y = y,
                             .epsilon = options.epsilon,
                             .rectify = options.rectify});
  return y;
}

Tensor sample_of(Context& ctx, StatisticRef ref) {
  return ctx.statistics != nullptr && ref.defined() ? ctx.statistics->sample(ref) : Tensor();
}

}  // namespace

Tensor batch_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta,
                  const BatchNormOptions& options) {
  const Inputs in = prepare(ctx, input, gamma, beta, options);
  if (!ctx.training) return infer(ctx, in, options);
  const Shape channels = in.gamma.shape();
  const Tensor y = ctx.empty(in.x.shape(), in.x.dtype());
  const Tensor mean = ctx.empty(channels), rstd = ctx.empty(channels);
  const Tensor mean_sample = sample_of(ctx, options.mean), variance_sample = sample_of(ctx, options.variance);
  ctx.run(BatchNormFwdArgs{.x = in.x,
                           .gamma = in.gamma,
                           .beta = in.beta,
                           .residual = in.residual,
                           .y = y,
                           .mean = mean,
                           .rstd = rstd,
                           .variance = variance_sample,
                           .epsilon = options.epsilon,
                           .rectify = options.rectify});
  if (mean_sample.defined()) ctx.backend->copy(ctx.exec, mean_sample, mean);
  const bool keeps_result = options.rectify == Rectify::kYes && in.residual.defined();
  return recorded(ctx, y,
                  BatchNormBackward{.x = in.x,
                                    .result = keeps_result ? y : Tensor(),
                                    .mean = mean,
                                    .rstd = rstd,
                                    .gamma = gamma,
                                    .beta = beta,
                                    .rectify = options.rectify,
                                    .residual = in.residual.id()});
}

}  // namespace trireme::ops
