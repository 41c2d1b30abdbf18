// Rotary positions (Su et al. 2021) of packed queries, keys and values.
#pragma once

#include "kernels/backend.h"
#include "runtime/context.h"

namespace trireme::ops {

/// Llama 3.1's stretching of the context: what turns less than once in original_context / low_freq_factor
/// positions turns `factor` times slower, what turns faster than once in original_context /
/// high_freq_factor stays, and between the two it is interpolated.
struct RopeScaling {
  double factor = 1.0;  // 1: none
  double low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_context = 8192;
};

/// Pair i turns by theta^(-2 i / head_dim) radians a position, scaled. Throws Error(kInvalidInput) for an odd
/// head_dim and for one above 2 RopeFrequencies::kMaxPairs.
RopeFrequencies rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling = {});

struct RopeOptions {
  int num_heads = 1;
  int num_kv_heads = 1;  // divides num_heads
  RopeFrequencies rope;
};

/// Input [B, T, (num_heads + 2 num_kv_heads) head_dim], packed [q | k | v] as attention() reads it -> as
/// input: q and k turned by their positions. Backward saves nothing.
Tensor rope(Context& ctx, const Tensor& input, const RopeOptions& options);

}  // namespace trireme::ops
