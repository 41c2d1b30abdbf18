#include "runtime/ops/layer_norm.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/row_groups.h"
#include "runtime/ops/sequence_shard.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

// Writes or adds `sum` to a gradient target, by its mode.
struct NormBackward {
  const char* op;
  Tensor x, mean, rstd;  // RMS norm has no mean and no beta
  ParamRef gamma, beta;
  int row_groups = 1;
  float gamma_offset = 0.0f;

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
                          .gamma_center = center + gamma_offset};
    if (mean.defined()) args.mean = mean;
    if (existing.defined()) args.dx_add = existing.rows();
    const bool wanted = dgamma.mode != GradientMode::kIgnore || dbeta.mode != GradientMode::kIgnore;
    if (row_groups > 1 && (wanted || shards_sequence(ctx))) {
      sum_groups(ctx, {.dy = dy, .existing = existing, .dx = dx}, args, dgamma, dbeta);
    } else {
      ctx.run(args);
    }
    gradients.add(ctx, x.id(), std::move(dx));
  }

  struct Rows {
    const Tensor &dy, &existing, &dx;
  };

  // Each group uses the arguments of `whole`, with its own rows and sums.
  void sum_groups(Context& ctx, const Rows& rows, const LayerNormBwdArgs& whole, const GradientTarget& dgamma,
                  const GradientTarget& dbeta) const {
    const std::int64_t cols = x.shape().dim(-1), num = mean.defined() ? 2 : 1;
    const Tensor sums = sum_in_row_groups(ctx, x.shape().num_rows(), row_groups, num * cols,
                                          [&](const RowRange& range, const Tensor& sum) {
                                            const auto of = [&](const Tensor& all) {
                                              return all.slice(range.first * cols, {range.count, cols});
                                            };
                                            LayerNormBwdArgs args = whole;
                                            args.dy = of(rows.dy);
                                            args.x = of(x);
                                            args.dx = of(rows.dx);
                                            if (rows.existing.defined()) args.dx_add = of(rows.existing);
                                            args.rstd = rstd.slice(range.first, {range.count});
                                            args.dgamma = sum.slice(0, {cols});
                                            args.dgamma_mode = GradientMode::kOverwrite;
                                            if (mean.defined()) {
                                              args.mean = mean.slice(range.first, {range.count});
                                              args.dbeta = sum.slice(cols, {cols});
                                              args.dbeta_mode = GradientMode::kOverwrite;
                                            }
                                            ctx.run(args);
                                          });
    put_gradient(ctx, dgamma, sums.slice(0, {cols}));
    if (mean.defined()) put_gradient(ctx, dbeta, sums.slice(cols, {cols}));
  }
};

/// Layer norm, or RMS norm if beta is undefined.
Tensor normalized(Context& ctx, const char* op, OpKind kind, const Tensor& input, ParamRef gamma,
                  ParamRef beta, const NormOptions& options) {
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(kind, input.dtype()));
  const auto [g, center] = centered_parameter(ctx, gamma, x.dtype());
  TRIREME_CHECK(x.shape().rank() >= 1 && g.shape() == Shape{x.shape().dim(-1)},
                "{}: input {} does not fit gamma {}", op, x.shape().to_string(), g.shape().to_string());
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  LayerNormFwdArgs args{.x = x.rows(),
                        .gamma = g,
                        .y = y.rows(),
                        .epsilon = options.epsilon,
                        .gamma_center = center + options.gamma_offset};
  NormBackward backward{.op = op,
                        .x = x,
                        .gamma = gamma,
                        .beta = beta,
                        .row_groups = options.row_groups,
                        .gamma_offset = options.gamma_offset};
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

Tensor layer_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta,
                  const NormOptions& options) {
  return normalized(ctx, "layer_norm", OpKind::kLayerNorm, input, gamma, beta, options);
}

Tensor rms_norm(Context& ctx, const Tensor& input, ParamRef gamma, const NormOptions& options) {
  return normalized(ctx, "rms_norm", OpKind::kRmsNorm, input, gamma, {}, options);
}

}  // namespace trireme::ops
