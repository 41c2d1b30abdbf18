#include "runtime/ops/head_norm.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/shared_gradients.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

/// The heads of q or of k, contiguous.
struct Heads {
  Tensor x;     // [B, T, heads head_dim]
  Tensor rstd;  // [B T heads], or [B T] of whole vectors
  ParamRef gamma;
};

/// Each norm's elements as a row.
Tensor norm_rows(const Tensor& x, std::int64_t width) {
  return x.slice(0, {x.shape().num_elems() / width, width});
}

/// Packed rows, split in three.
struct Parts {
  Tensor q, k, v;
};

Tensor channels(const Context& ctx, const Tensor& rows, std::int64_t width) {
  return ctx.empty(rows.shape().with_last(width), rows.dtype());
}

Parts split_heads(const Context& ctx, const Tensor& qkv, std::int64_t q_width, std::int64_t kv_width) {
  const Parts parts{channels(ctx, qkv, q_width), channels(ctx, qkv, kv_width), channels(ctx, qkv, kv_width)};
  const Tensor kv = channels(ctx, qkv, 2 * kv_width);
  ctx.run(SplitChannelsArgs{.x = qkv.rows(), .a = parts.q.rows(), .b = kv.rows()});
  ctx.run(SplitChannelsArgs{.x = kv.rows(), .a = parts.k.rows(), .b = parts.v.rows()});
  return parts;
}

void join_heads(const Context& ctx, const Parts& parts, const Tensor& qkv) {
  const Tensor kv = channels(ctx, qkv, 2 * parts.k.shape().dim(-1));
  ctx.run(ConcatChannelsArgs{.a = parts.k.rows(), .b = parts.v.rows(), .y = kv.rows()});
  ctx.run(ConcatChannelsArgs{.a = parts.q.rows(), .b = kv.rows(), .y = qkv.rows()});
}

struct HeadNormBackward {
  Heads q, k;
  float gamma_offset = 0.0f;
  std::shared_ptr<SharedGradients> shared;  // null: the gradient goes to the parameters
  ValueId x = kNoValue;

  std::string name() const { return "head_norm"; }
  std::vector<Tensor> saved() const { return {q.x, q.rstd, k.x, k.rstd}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    const Parts parts = split_heads(ctx, dy, q.x.shape().dim(-1), k.x.shape().dim(-1));
    differentiate(ctx, q, parts.q);
    differentiate(ctx, k, parts.k);
    Tensor dx = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
    join_heads(ctx, parts, dx);
    gradients.add(ctx, x, std::move(dx));
  }

  /// In place.
  void differentiate(Context& ctx, const Heads& heads, const Tensor& dy) const {
    const auto [gamma, center] = centered_parameter(ctx, heads.gamma, heads.x.dtype());
    const GradientTarget dgamma = shared != nullptr
                                      ? GradientTarget{ctx.empty(gamma.shape()), GradientMode::kOverwrite}
                                      : ctx.parameters->gradient(heads.gamma);
    const std::int64_t width = gamma.shape().num_elems();
    const Tensor rows = norm_rows(dy, width);
    ctx.run(LayerNormBwdArgs{.dy = rows,
                             .x = norm_rows(heads.x, width),
                             .gamma = gamma,
                             .rstd = heads.rstd,
                             .dx = rows,
                             .dgamma = dgamma.view(),
                             .dgamma_mode = dgamma.mode,
                             .dbeta_mode = GradientMode::kIgnore,
                             .gamma_center = center + gamma_offset});
    if (shared != nullptr) shared->add(ctx, heads.gamma, dgamma.tensor);
  }
};

/// The normed heads of `heads`, whose rstd it sets. A norm has `width` elements.
Tensor normed(Context& ctx, Heads& heads, std::int64_t width, const HeadNormOptions& options) {
  const auto [gamma, center] = centered_parameter(ctx, heads.gamma, heads.x.dtype());
  TRIREME_CHECK(gamma.shape() == Shape{width}, "head_norm: norms of {} do not fit gamma {}", width,
                gamma.shape().to_string());
  const Tensor rows = norm_rows(heads.x, width);
  const Tensor y = ctx.empty(heads.x.shape(), heads.x.dtype());
  heads.rstd = ctx.empty({rows.shape().num_rows()});
  ctx.run(LayerNormFwdArgs{.x = rows,
                           .gamma = gamma,
                           .y = norm_rows(y, width),
                           .rstd = heads.rstd,
                           .epsilon = options.epsilon,
                           .gamma_center = center + options.gamma_offset});
  return y;
}

}  // namespace

Tensor head_norm(Context& ctx, const Tensor& input, ParamRef q_gamma, ParamRef k_gamma,
                 const HeadNormOptions& options) {
  const std::int64_t heads = options.num_heads, kv_heads = options.num_kv_heads;
  TRIREME_CHECK(
      input.shape().rank() == 3 && heads >= 1 && kv_heads >= 1 &&
          input.shape().dim(2) % (heads + 2 * kv_heads) == 0,
      "head_norm: input {} is not [B, T, (num_heads + 2 num_kv_heads) head_dim] with {} and {} heads",
      input.shape().to_string(), heads, kv_heads);
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kRmsNorm, input.dtype()));
  const std::int64_t head_dim = x.shape().dim(2) / (heads + 2 * kv_heads);
  const Parts parts = split_heads(ctx, x, heads * head_dim, kv_heads * head_dim);
  Heads q{.x = parts.q, .rstd = {}, .gamma = q_gamma}, k{.x = parts.k, .rstd = {}, .gamma = k_gamma};
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  const auto width = [&](std::int64_t count) { return options.whole ? count * head_dim : head_dim; };
  join_heads(ctx, {normed(ctx, q, width(heads), options), normed(ctx, k, width(kv_heads), options), parts.v},
             y);
  return recorded(
      ctx, y,
      HeadNormBackward{
          .q = q, .k = k, .gamma_offset = options.gamma_offset, .shared = ctx.shared_gradients, .x = x.id()});
}

}  // namespace trireme::ops
