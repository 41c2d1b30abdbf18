// The elementwise part of attention's backward, with the names of native_attention_bwd.cu.
#pragma once

#include "kernels/cuda/attention/attention_tile.cuh"

namespace trireme::cuda {

template <class T>
struct BwdPointers {
  const T* dout;
  QkvPointers<const T> in;
  const float *lse, *delta;  // [B, num_heads, T]
  QkvPointers<T> gradients;
};

/// W P and dS for one query and one key.
struct Gradients {
  float weighted, dscore;
};
/// Computes both from the pair's score and product dO V^T. kVisible: the query is known to see the key.
template <bool kDropout, bool kVisible = false>
__device__ Gradients gradients_at(const AttentionProblem& a, std::int64_t sample, std::int64_t head,
                                  std::int64_t query, std::int64_t key, float score, float product, float lse,
                                  float delta) {
  if (!kVisible && !is_visible(a, sample, query, key)) return {0.0f, 0.0f};
  const float p = expf(scaled_score(a, score) - lse);
  const float weight = dropout_weight<kDropout>(a, sample, head, query, key);
  return {p * weight, p * (weight * product - delta) * a.scale};
}

}  // namespace trireme::cuda
