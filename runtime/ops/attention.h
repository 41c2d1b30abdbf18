// Multi-head self-attention that never materialises [T, T] (Dao et al. 2022).
//
// [Note: selective recompute] Attention without [T, T] has little of its core to save: the output, which the
// projection behind it saves in any case, and one float per query and head. Queries, keys and values are most
// of the saved bytes, up to three times the width of the stream. One product computes them from the input of
// the block's attention, which that product saves anyway for the gradient of its weight. So
// Recompute::kSelective drops them after forward and repeats that product (and the rotation of queries and
// keys) in backward. The softmax and its sums are not repeated. Rejected: running the core again, as
// Korthikanti et al. 2022 do with [T, T] in memory. It would save one float per query and head, and cost more
// arithmetic the longer the context is.
#pragma once

#include <functional>

#include "runtime/context.h"

namespace trireme::ops {

struct AttentionOptions {
  int num_heads = 1;
  int num_kv_heads = 0;  // heads of keys and values (grouped queries, Ainslie et al. 2023); 0: num_heads
  bool causal = true;
  float dropout_p = 0.0f;   // on the probabilities, while ctx.training
  Tensor key_bounds;        // [B, T, 2] int32, or undefined: see [Note: documents of a row] in backend_ops.h
  std::int64_t window = 0;  // 0: none; needs `causal`. See [Note: sliding window] in backend_ops.h
  float scale = 0.0f;       // of the scores; 0: 1 / sqrt(head_dim)
};

/// Input [B, T, (num_heads + 2 num_kv_heads) head_dim], packed [q | k | v] -> [B, T, num_heads head_dim];
/// scale 1 / sqrt(head_dim) by default. Head h of q uses head h num_kv_heads / num_heads of k and v. Backward
/// saves the input, the output and one float per query and head.
Tensor attention(Context& ctx, const Tensor& input, const AttentionOptions& options);

/// Computes packed [q | k | v] from the input of a block's attention. Repeatable: it draws no random numbers.
using QkvProjection = std::function<Tensor(Context&, const Tensor& input)>;

/// The same bits as attention(ctx, project(ctx, input), options). With Recompute::kSelective the tape saves
/// `input` instead of the result of `project`: see [Note: selective recompute].
Tensor projected_attention(Context& ctx, const Tensor& input, const QkvProjection& project,
                           const AttentionOptions& options);

}  // namespace trireme::ops
