// RMS norm of each head of packed queries and keys (Qwen3; Dehghani et al. 2023 with a layer norm), or of all
// heads as one vector (OLMo 2).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct HeadNormOptions {
  int num_heads = 1;
  int num_kv_heads = 1;
  float epsilon = 1e-6f;
  bool whole = false;         // all heads of q are one vector, and all heads of k
  float gamma_offset = 0.0f;  // as in NormOptions
};

/// Input [B, T, (num_heads + 2 num_kv_heads) head_dim], packed [q | k | v] as in attention(); gammas
/// [head_dim], one for all heads of q and one for all heads of k, or with `whole` [num_heads head_dim] and
/// [num_kv_heads head_dim] -> the same shape. A head (or whole vector) x of q or k
/// becomes x / sqrt(mean of x^2 + epsilon) * gamma, with statistics in fp32. v is copied. In tensor
/// chunks, all chunks read the gammas. Backward saves q and k, and one float for each of their heads and
/// rows.
Tensor head_norm(Context& ctx, const Tensor& input, ParamRef q_gamma, ParamRef k_gamma,
                 const HeadNormOptions& options);

}  // namespace trireme::ops
