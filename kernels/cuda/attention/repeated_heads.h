// Repeats the keys and values of grouped queries (Ainslie et al. 2023) for each query head, for cuDNN engines
// that support only equal numbers of heads.
//
// [Note: grouped queries on cuda] Native kernels read the key heads in place. cuDNN's forward is requested
// with the actual numbers of heads. Its backward would sum the gradients of a group in an order that no
// contract names. So keys and values are copied for each query head, for the samples of one part at a time
// ([Note: parts of an attention]). cuDNN writes one gradient per copy, and add_repeated() adds them in the
// order of the heads. Forward uses copies too if cuDNN has no engine for the numbers of heads; that is
// logged.
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
