// Multi-head self-attention that never materialises [T, T] (Dao et al. 2022).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct AttentionOptions {
  int num_heads = 1;
  bool causal = true;
  float dropout_p = 0.0f;  // on the probabilities, while ctx.training
  Tensor key_bounds;       // [B, T, 2] int32, or undefined: see [Note: documents of a row] in backend_ops.h
};

/// Input [B, T, 3 C], packed [q | k | v], each [num_heads, C / num_heads] -> [B, T, C]; scale 1 /
/// sqrt(head_dim). Backward saves the input, the output and one float a query and head.
Tensor attention(Context& ctx, const Tensor& input, const AttentionOptions& options);

}  // namespace trireme::ops
