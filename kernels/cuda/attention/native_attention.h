// Attention by native kernels: any dtype, head size up to 256, and dropout. fp32 runs on tensor cores where
// the card has them (mma_attention.h). 16-bit types are computed with in fp32 on the plain cores, and so
// better served by the library where it can.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

// MathMode makes a difference on tensor cores alone.
void native_attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args);
/// No atomics: one kernel sums the gradients of keys and values, another those of queries.
void native_attention_bwd(const KernelContext& exec, const AttentionBwdArgs& args);

}  // namespace trireme::cuda
