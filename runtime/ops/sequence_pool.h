// A weighted mean of tokens, with the softmax of scores as weights (Hassani et al. 2021).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// x [B, N, C], scores [B, N] or [B, N, 1] -> sum over n of softmax(scores[b])[n] x[b, n], [B, C], in x's
/// dtype. Backward saves x and one float per token.
Tensor sequence_pool(Context& ctx, const Tensor& x, const Tensor& scores);

}  // namespace trireme::ops
