#include "runtime/ops/attention.h"

#include <cmath>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/key_value_cache.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/shared_gradients.h"
#include "runtime/saved_tensor.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

// Results of forward that backward saves besides queries, keys and values, and the options.
struct Core {
  Tensor out, lse;
  AttentionOptions options;
  float scale = 1.0f;
  MathMode math = MathMode::kFp32;
  RngKey rng;
  std::int64_t first_sample = 0;

  Tensor backward(Context& ctx, const Tensor& qkv, const Tensor& dout) const {
    const Tensor dqkv = ctx.empty(qkv.shape(), qkv.dtype());
    ctx.run(AttentionBwdArgs{.dout = dout,
                             .qkv = qkv,
                             .out = out,
                             .lse = lse,
                             .dqkv = dqkv,
                             .num_heads = options.num_heads,
                             .num_kv_heads = options.num_kv_heads,
                             .scale = scale,
                             .causal = options.causal,
                             .math = math,
                             .dropout_p = options.dropout_p,
                             .rng = rng,
                             .first_sample = first_sample,
                             .key_bounds = options.key_bounds,
                             .window = options.window});
    return dqkv;
  }
};

// Saved tensors: `input` and the tensors of the core.
std::vector<Tensor> saved_with(const Tensor& input, const Core& core) {
  std::vector<Tensor> tensors{input, core.out, core.lse};
  if (core.options.key_bounds.defined()) tensors.push_back(core.options.key_bounds);
  return tensors;
}

struct AttentionBackward {
  Tensor qkv;
  Core core;

  std::string name() const { return "attention"; }
  std::vector<Tensor> saved() const { return saved_with(qkv, core); }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dout = gradients.take(y);
    gradients.add(ctx, qkv.id(), core.backward(ctx, qkv, dout));
  }
};

// Runs the projection again, on a separate tape.
struct ProjectedAttentionBackward {
  SavedTensor input;
  QkvProjection project;
  Core core;
  std::shared_ptr<SharedGradients> shared_gradients;

  std::string name() const { return "projected_attention"; }
  std::vector<Tensor> saved() const { return saved_with(input.kept(), core); }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    Tape tape;
    Context again = ctx;
    again.tape = &tape;
    again.shared_gradients = shared_gradients;
    const Tensor watched = tape.watch(input.take(ctx));
    Tensor qkv = project(again, watched);
    const ValueId id = qkv.id();
    const Tensor dqkv = core.backward(ctx, std::exchange(qkv, Tensor()), gradients.take(y));
    gradients.add(ctx, input.id(), tape.backward(ctx, {{id, dqkv}}, {watched.id()}).front());
  }
};

PackedHeads heads_of(const Tensor& qkv, const AttentionOptions& options) {
  return packed_heads(qkv.shape().dim(2), options.num_heads, options.num_kv_heads);
}

/// Appends the newest tokens to the cache and computes their attention over all cached tokens. A first
/// forward over several tokens only fills the cache and returns true: the caller then runs the training
/// kernel.
bool attend_to_cached(Context& ctx, const Tensor& qkv, const Tensor& out, const AttentionOptions& options,
                      float scale) {
  TRIREME_CHECK(options.causal && ctx.tape == nullptr && !ctx.training,
                "a key-value cache serves inference with causal attention");
  const std::int64_t batch = qkv.shape().dim(0), tokens = qkv.shape().dim(1);
  const PackedHeads heads = heads_of(qkv, options);
  const KeyValueCache::Layer& layer =
      ctx.cache->next_layer(ctx, batch, tokens, heads.keys, heads.dim, qkv.dtype());
  AttentionCachedArgs args{.qkv = qkv,
                           .keys = layer.keys,
                           .values = layer.values,
                           .first = ctx.cache->length(),
                           .num_heads = options.num_heads,
                           .num_kv_heads = options.num_kv_heads,
                           .scale = scale,
                           .math = ctx.precision.math_of(OpKind::kAttention),
                           .window = options.window};
  const bool is_first = args.first == 0 && tokens > 1;
  if (!is_first) args.out = out;
  ctx.run(args);
  return is_first;
}

// `qkv` after checks, cast to the dtype of attention.
Tensor checked_qkv(Context& ctx, const Tensor& qkv, const AttentionOptions& options) {
  const int kv_heads = options.num_kv_heads == 0 ? options.num_heads : options.num_kv_heads;
  TRIREME_CHECK(options.num_heads >= 1 && kv_heads >= 1 && options.num_heads % kv_heads == 0,
                "attention: {} heads of k and v do not divide {} heads of queries", kv_heads,
                options.num_heads);
  TRIREME_CHECK(qkv.shape().rank() == 3 && qkv.shape().dim(2) % (options.num_heads + 2 * kv_heads) == 0,
                "attention: qkv {} is not [B, T, (num_heads + 2 num_kv_heads) head_dim] with {} and {} heads",
                qkv.shape().to_string(), options.num_heads, kv_heads);
  TRIREME_CHECK(options.window >= 0 && (options.window == 0 || options.causal),
                "attention: a window of {} needs a causal mask and must not be negative", options.window);
  const Tensor& bounds = options.key_bounds;
  TRIREME_CHECK(!bounds.defined() || (ctx.cache == nullptr && bounds.dtype() == DType::kInt32 &&
                                      bounds.shape() == Shape({qkv.shape().dim(0), qkv.shape().dim(1), 2})),
                "attention: bounds of keys {} {} are not int32 [B, T, 2] of qkv {}, or there is a cache",
                name(bounds.dtype()), bounds.shape().to_string(), qkv.shape().to_string());
  return cast(ctx, qkv, ctx.precision.dtype_of(OpKind::kAttention, qkv.dtype()));
}

/// Writes core.out and the rest of `core`. Returns false if there is no backward, as with cached tokens.
bool run_core(Context& ctx, const Tensor& qkv, const AttentionOptions& options, Core& core) {
  core.options = options;
  if (!ctx.training) core.options.dropout_p = 0.0f;
  core.scale =
      options.scale > 0 ? options.scale : 1.0f / std::sqrt(static_cast<float>(heads_of(qkv, options).dim));
  core.math = ctx.precision.math_of(OpKind::kAttention);
  core.first_sample = ctx.first_sample;
  if (ctx.cache != nullptr && !attend_to_cached(ctx, qkv, core.out, options, core.scale)) return false;
  core.lse = ctx.empty({qkv.shape().dim(0), options.num_heads, qkv.shape().dim(1)});
  if (core.options.dropout_p > 0) core.rng = ctx.next_rng();
  ctx.run(AttentionFwdArgs{.qkv = qkv,
                           .out = core.out,
                           .lse = core.lse,
                           .num_heads = options.num_heads,
                           .num_kv_heads = options.num_kv_heads,
                           .scale = core.scale,
                           .causal = options.causal,
                           .math = core.math,
                           .dropout_p = core.options.dropout_p,
                           .rng = core.rng,
                           .first_sample = core.first_sample,
                           .key_bounds = options.key_bounds,
                           .window = options.window});
  return true;
}

}  // namespace

Tensor attention(Context& ctx, const Tensor& input, const AttentionOptions& options) {
  const Tensor qkv = checked_qkv(ctx, input, options);
  Core core;
  core.out = ctx.empty(qkv.shape().with_last(heads_of(qkv, options).width()), qkv.dtype());
  if (!run_core(ctx, qkv, options, core)) return core.out;
  return recorded(ctx, core.out, AttentionBackward{.qkv = qkv, .core = core});
}

Tensor projected_attention(Context& ctx, const Tensor& input, const QkvProjection& project,
                           const AttentionOptions& options) {
  if (ctx.tape == nullptr || ctx.tape->recompute() == Recompute::kNone) {
    return attention(ctx, project(ctx, input), options);
  }
  // Save the tensor that the projection reads, after its cast.
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kLinear, input.dtype()));
  const auto project_to_core = [project, options](Context& again, const Tensor& read) {
    return checked_qkv(again, project(again, read), options);
  };
  Context forward = ctx;
  forward.tape = nullptr;
  const Tensor qkv = project_to_core(forward, x.detach());
  Core core;
  core.out = ctx.empty(qkv.shape().with_last(heads_of(qkv, options).width()), qkv.dtype());
  run_core(ctx, qkv, options, core);
  return recorded(ctx, core.out,
                  ProjectedAttentionBackward{.input = SavedTensor(ctx, x),
                                             .project = project_to_core,
                                             .core = core,
                                             .shared_gradients = ctx.shared_gradients});
}

}  // namespace trireme::ops
