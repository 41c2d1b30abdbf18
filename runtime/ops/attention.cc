#include "runtime/ops/attention.h"

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/key_value_cache.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct AttentionBackward {
  Tensor qkv, out, lse;
  AttentionOptions options;
  float scale = 1.0f;
  MathMode math = MathMode::kFp32;
  RngKey rng;
  std::int64_t first_sample = 0;

  std::string name() const { return "attention"; }
  std::vector<Tensor> saved() const {
    std::vector<Tensor> tensors{qkv, out, lse};
    if (options.key_bounds.defined()) tensors.push_back(options.key_bounds);
    return tensors;
  }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dout = gradients.take(y);
    const Tensor dqkv = ctx.empty(qkv.shape(), qkv.dtype());
    ctx.run(AttentionBwdArgs{.dout = dout,
                             .qkv = qkv,
                             .out = out,
                             .lse = lse,
                             .dqkv = dqkv,
                             .num_heads = options.num_heads,
                             .scale = scale,
                             .causal = options.causal,
                             .math = math,
                             .dropout_p = options.dropout_p,
                             .rng = rng,
                             .first_sample = first_sample,
                             .key_bounds = options.key_bounds});
    gradients.add(ctx, qkv.id(), dqkv);
  }
};

/// Of the newest tokens, which the cache keeps. A first forward over many tokens has no earlier ones and goes
/// the way of training; true then.
bool attend_to_cached(Context& ctx, const Tensor& qkv, const Tensor& out, const AttentionOptions& options,
                      float scale) {
  TRIREME_CHECK(options.causal && ctx.tape == nullptr && !ctx.training,
                "a key-value cache serves inference with causal attention");
  const std::int64_t batch = qkv.shape().dim(0), tokens = qkv.shape().dim(1);
  const std::int64_t head_dim = qkv.shape().dim(2) / (3 * options.num_heads);
  const KeyValueCache::Layer& layer =
      ctx.cache->next_layer(ctx, batch, tokens, options.num_heads, head_dim, qkv.dtype());
  AttentionCachedArgs args{.qkv = qkv,
                           .keys = layer.keys,
                           .values = layer.values,
                           .first = ctx.cache->length(),
                           .num_heads = options.num_heads,
                           .scale = scale,
                           .math = ctx.precision.math_of(OpKind::kAttention)};
  const bool is_first = args.first == 0 && tokens > 1;
  if (!is_first) args.out = out;
  ctx.run(args);
  return is_first;
}

}  // namespace

Tensor attention(Context& ctx, const Tensor& input, const AttentionOptions& options) {
  TRIREME_CHECK(input.shape().rank() == 3 && options.num_heads >= 1 &&
                    input.shape().dim(2) % (3 * options.num_heads) == 0,
                "attention: qkv {} is not [B, T, 3 * num_heads * head_dim] with {} heads",
                input.shape().to_string(), options.num_heads);
  const Tensor& bounds = options.key_bounds;
  TRIREME_CHECK(
      !bounds.defined() || (ctx.cache == nullptr && bounds.dtype() == DType::kInt32 &&
                            bounds.shape() == Shape({input.shape().dim(0), input.shape().dim(1), 2})),
      "attention: bounds of keys {} {} are not int32 [B, T, 2] of qkv {}, or there is a cache",
      name(bounds.dtype()), bounds.shape().to_string(), input.shape().to_string());
  const Tensor qkv = cast(ctx, input, ctx.precision.dtype_of(OpKind::kAttention, input.dtype()));
  const MathMode math = ctx.precision.math_of(OpKind::kAttention);
  const std::int64_t batch = qkv.shape().dim(0);
  const std::int64_t tokens = qkv.shape().dim(1);
  const std::int64_t width = qkv.shape().dim(2) / 3;
  const Tensor out = ctx.empty({batch, tokens, width}, qkv.dtype());
  const float scale = 1.0f / std::sqrt(static_cast<float>(width / options.num_heads));
  if (ctx.cache != nullptr && !attend_to_cached(ctx, qkv, out, options, scale)) return out;
  const Tensor lse = ctx.empty({batch, options.num_heads, tokens});
  AttentionOptions used = options;
  if (!ctx.training) used.dropout_p = 0.0f;
  const RngKey rng = used.dropout_p > 0 ? ctx.next_rng() : RngKey{};
  ctx.run(AttentionFwdArgs{.qkv = qkv,
                           .out = out,
                           .lse = lse,
                           .num_heads = used.num_heads,
                           .scale = scale,
                           .causal = used.causal,
                           .math = math,
                           .dropout_p = used.dropout_p,
                           .rng = rng,
                           .first_sample = ctx.first_sample,
                           .key_bounds = used.key_bounds});
  return recorded(ctx, out,
                  AttentionBackward{.qkv = qkv,
                                    .out = out,
                                    .lse = lse,
                                    .options = used,
                                    .scale = scale,
                                    .math = math,
                                    .rng = rng,
                                    .first_sample = ctx.first_sample});
}

}  // namespace trireme::ops
