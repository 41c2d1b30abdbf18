// Attention on tensor cores. MathMode::kTf32 and 16-bit types use tf32 factors, which represent 16-bit values
// exactly. kFp32 uses three products for one ([Note: three products for one] in tf32_mma.cuh). Supports the
// head sizes and dropout of native_attention.h. Probabilities and score gradients are rounded to factors
// between two products.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// True on cards from sm_80 on for which this build has code. Logs once for other cards.
bool suits_tensor_cores(const KernelContext& exec, DType dtype);

void mma_attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args);
void mma_attention_fwd(const KernelContext& exec, const CrossAttentionFwdArgs& args);
/// No atomics: one kernel sums the gradients of keys and values, another one the gradients of queries.
/// `delta` [B, num_heads, T] is rowsum(dout * out).
void mma_attention_bwd(const KernelContext& exec, const AttentionBwdArgs& args, const float* delta);
void mma_attention_bwd(const KernelContext& exec, const CrossAttentionBwdArgs& args, const float* delta);

}  // namespace trireme::cuda
