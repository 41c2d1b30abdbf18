// Keys and values of grouped queries (Ainslie et al. 2023) beside each head of queries, for engines of the
// library that know one head of keys a head of queries.
//
// [Note: grouped queries on cuda] Native kernels read the heads of keys where they are, and the library's
// forward is asked by the counts of heads. Its backward would sum the gradients of a group in an order that
// no contract names. So keys and values are copied for each head of queries, as many samples at a time as
// [Note: parts of an attention] computes at once; the library writes a gradient to each copy, and
// add_repeated() adds them in the order of the heads. Forward goes the same way where the library has no
// engine for its counts of heads, which is logged.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// Memory of [B, T, 2 H D] 16-bit elements: rows of H copied heads of k, then of v, or their gradients.
struct RepeatedHeads {
  void* rows = nullptr;
  void* gradients = nullptr;  // of backward
};

/// to[b, t] = the heads of k and v of qkv[b, t] [(H + 2 K) D], each H / K times.
void repeat_heads(const KernelContext& exec, ConstTensorView qkv, const PackedHeads& heads, void* to);

/// The heads of k and v of dqkv[b, t] = the sums of those in `from` that are their copies, in fp32 and in
/// their order, rounded once.
void add_repeated(const KernelContext& exec, const void* from, const PackedHeads& heads, TensorView dqkv);

}  // namespace trireme::cuda
