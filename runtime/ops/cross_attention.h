// Attention of queries to the keys and values of another sequence.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// q [B, T, num_heads head_dim], k and v [B, S, num_heads head_dim] -> [B, T, num_heads head_dim] in the
/// compute dtype; scale 1 / sqrt(head_dim), every query sees all keys. S may be T: self-attention of
/// projections that are not packed. Backward saves the inputs, the output and one float per query and head.
/// Computes in the dtype of `attention` (see precision.h).
Tensor cross_attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, int num_heads);

}  // namespace trireme::ops
