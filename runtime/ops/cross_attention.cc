#include "runtime/ops/cross_attention.h"

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct CrossAttentionBackward {
  Tensor q, k, v, out, lse;
  int num_heads = 1;
  float scale = 1.0f;
  MathMode math = MathMode::kFp32;

  std::string name() const { return "cross_attention"; }
  std::vector<Tensor> saved() const { return {q, k, v, out, lse}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dout = gradients.take(y);
    Tensor dq = ctx.empty(q.shape(), q.dtype()), dk = ctx.empty(k.shape(), k.dtype()),
           dv = ctx.empty(v.shape(), v.dtype());
    ctx.run(CrossAttentionBwdArgs{.q = q,
                                  .k = k,
                                  .v = v,
                                  .dout = dout,
                                  .out = out,
                                  .lse = lse,
                                  .dq = dq,
                                  .dk = dk,
                                  .dv = dv,
                                  .num_heads = num_heads,
                                  .scale = scale,
                                  .math = math});
    gradients.add(ctx, v.id(), std::move(dv));
    gradients.add(ctx, k.id(), std::move(dk));
    gradients.add(ctx, q.id(), std::move(dq));
  }
};

}  // namespace

Tensor cross_attention(Context& ctx, const Tensor& queries, const Tensor& keys, const Tensor& values,
                       int num_heads) {
  const Shape &qs = queries.shape(), &ks = keys.shape();
  TRIREME_CHECK(qs.rank() == 3 && num_heads >= 1 && qs[2] > 0 && qs[2] % num_heads == 0,
                "cross_attention: queries {} are not [B, T, num_heads head_dim] with {} heads",
                qs.to_string(), num_heads);
  TRIREME_CHECK(ks.rank() == 3 && ks[0] == qs[0] && ks[1] >= 1 && ks[2] == qs[2] && values.shape() == ks,
                "cross_attention: keys {} and values {} do not fit queries {} (want [B, S, num_heads "
                "head_dim])",
                ks.to_string(), values.shape().to_string(), qs.to_string());
  const DType dtype = ctx.precision.dtype_of(OpKind::kAttention, queries.dtype());
  const Tensor q = cast(ctx, queries, dtype), k = cast(ctx, keys, dtype), v = cast(ctx, values, dtype);
  const Tensor out = ctx.empty(qs, dtype), lse = ctx.empty({qs[0], num_heads, qs[1]});
  const float scale = 1.0f / std::sqrt(static_cast<float>(qs[2] / num_heads));
  const MathMode math = ctx.precision.math_of(OpKind::kAttention);
  ctx.run(CrossAttentionFwdArgs{
      .q = q, .k = k, .v = v, .out = out, .lse = lse, .num_heads = num_heads, .scale = scale, .math = math});
  return recorded(ctx, out,
                  CrossAttentionBackward{.q = q,
                                         .k = k,
                                         .v = v,
                                         .out = out,
                                         .lse = lse,
                                         .num_heads = num_heads,
                                         .scale = scale,
                                         .math = math});
}

}  // namespace trireme::ops
