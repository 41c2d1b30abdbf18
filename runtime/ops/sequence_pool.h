// A weighted mean of tokens, the weights by the softmax of scores (Hassani et al. 2021).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// x [B, N, C], scores [B, N] or [B, N, 1] -> sum over n of softmax(scores[b])[n] x[b, n], [B, C], in x's
/// dtype. Backward saves x and a float a token.
Tensor sequence_pool(Context& ctx, const Tensor& x, const Tensor& scores);

}  // namespace trireme::ops
