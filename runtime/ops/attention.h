// Multi-head self-attention that never materialises [T, T] (Dao et al. 2022).
//
// [Note: selective recompute] An attention that never has [T, T] leaves little of its core to save: the
// output, which the projection behind it saves in any case, and one float a query and head. Most of what it
// saves are queries, keys and values, up to three times the width of the stream. They are one product away
// from the input of the block's attention, which that product saves for the gradient of its weight. So
// Recompute::kSelective drops them after forward and makes that product (and the rotation of queries and
// keys) again in backward; softmax and its sums are not made twice. Rejected: to run the core again, as
// Korthikanti et al. 2022 do with [T, T] in memory. It would save one float a query and head, for more
// arithmetic the longer the context is.
#pragma once

#include <functional>

#include "runtime/context.h"

namespace trireme::ops {

struct AttentionOptions {
  int num_heads = 1;
  int num_kv_heads = 0;  // of keys and of values (grouped queries, Ainslie et al. 2023); 0: num_heads
  bool causal = true;
  float dropout_p = 0.0f;  // on the probabilities, while ctx.training
  Tensor key_bounds;       // [B, T, 2] int32, or undefined: see [Note: documents of a row] in backend_ops.h
};

/// Input [B, T, (num_heads + 2 num_kv_heads) head_dim], packed [q | k | v] -> [B, T, num_heads head_dim];
/// scale 1 / sqrt(head_dim). Head h of q reads head h num_kv_heads / num_heads of k and v. Backward saves the
/// input, the output and one float a query and head.
Tensor attention(Context& ctx, const Tensor& input, const AttentionOptions& options);

/// Makes packed [q | k | v] of the input of a block's attention, alike every time: it draws no random
/// numbers.
using QkvProjection = std::function<Tensor(Context&, const Tensor& input)>;

/// attention(ctx, project(ctx, input), options), the same bits. A tape with Recompute::kSelective saves
/// `input` in place of what `project` makes of it: see [Note: selective recompute].
Tensor projected_attention(Context& ctx, const Tensor& input, const QkvProjection& project,
                           const AttentionOptions& options);

}  // namespace trireme::ops
