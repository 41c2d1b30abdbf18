// Attention on tensor cores: tf32 factors for 16 bits, which they hold, and for MathMode::kTf32; for kFp32
// three products for one ([Note: three products for one] in tf32_mma.cuh). Heads as in native_attention.h,
// dropout too. Probabilities and scores' gradients are rounded to factors between two products.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// On cards from sm_80 on that this build has code for. Others are told once.
bool suits_tensor_cores(const KernelContext& exec, DType dtype);

void mma_attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args);
/// No atomics: one kernel sums the gradients of keys and values, another those of queries. `delta`
/// [B, num_heads, T] is rowsum(dout * out).
void mma_attention_bwd(const KernelContext& exec, const AttentionBwdArgs& args, const float* delta);

}  // namespace trireme::cuda
