// Native (fallback) attention: any dtype, head size up to 256, and dropout. Runs on tensor cores if the card
// has them (mma_attention.h), else in fp32 arithmetic on the plain cores. For 16-bit types, cuDNN is faster
// where it supports them.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

// MathMode matters on tensor cores only.
void native_attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args);
void native_attention_fwd(const KernelContext& exec, const CrossAttentionFwdArgs& args);
/// No atomics: one kernel sums the gradients of keys and values, another one the gradients of queries.
void native_attention_bwd(const KernelContext& exec, const AttentionBwdArgs& args);
void native_attention_bwd(const KernelContext& exec, const CrossAttentionBwdArgs& args);

}  // namespace trireme::cuda
