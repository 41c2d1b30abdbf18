// Attention by native kernels: any dtype, head size up to 256, and dropout. On tensor cores where the card
// has them (mma_attention.h), else in fp32 arithmetic on the plain cores. 16-bit types are better served by
// the library where it can.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

// MathMode makes a difference on tensor cores alone.
void native_attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args);
/// No atomics: one kernel sums the gradients of keys and values, another those of queries.
void native_attention_bwd(const KernelContext& exec, const AttentionBwdArgs& args);

}  // namespace trireme::cuda
