// Repeats the keys and values of grouped queries (Ainslie et al. 2023) for each query head, for cuDNN engines
// that support only equal numbers of heads.
//
// [Note: grouped queries on cuda] Native kernels read the key heads in place. So does cuDNN, which is
// requested with the actual numbers of heads. Its backward writes the gradients of keys and values for each
// query head to its workspace, and adds those of a group. An engine without a nondeterminism note repeats
// these sums, as it repeats those over queries and keys, and a tensor chunk holds whole groups. So the bits
// are equal on every layout. Keys and values are copied for each query head only if cuDNN has no such engine,
// which is logged, or if the scores of a group are too large for one part ([Note: parts of an attention]).
// cuDNN then writes one gradient per copy, and add_repeated() adds them in the order of the heads.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// Memory of [B, T, 2 H D] 16-bit elements. A row is H copied heads of k, then of v; or their gradients.
struct RepeatedHeads {
  void* rows = nullptr;
  void* gradients = nullptr;  // of backward
};

/// to[b, t] = the heads of k and v of qkv[b, t] [(H + 2 K) D], each repeated H / K times.
void repeat_heads(const KernelContext& exec, ConstTensorView qkv, const PackedHeads& heads, void* to);

/// Sets the heads of k and v of dqkv[b, t] to the sums of their copies in `from`. Sums are in fp32, in the
/// order of the copies, and rounded once.
void add_repeated(const KernelContext& exec, const void* from, const PackedHeads& heads, TensorView dqkv);

}  // namespace trireme::cuda
