// Rotary positions (Su et al. 2021) of packed queries, keys and values.
#pragma once

#include "kernels/backend.h"
#include "runtime/context.h"

namespace trireme::ops {

/// Llama 3.1's context extension. Pairs that turn less than once in original_context / low_freq_factor
/// positions turn `factor` times slower. Pairs that turn more than once in original_context /
/// high_freq_factor positions keep their speed. Between the two bounds the speed is interpolated.
struct RopeScaling {
  double factor = 1.0;  // 1: no scaling
  double low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_context = 8192;
};

/// Pair i turns by theta^(-2 i / head_dim) radians per position, scaled. Throws Error(kInvalidInput) for an
/// odd head_dim or one above 2 RopeFrequencies::kMaxPairs.
RopeFrequencies rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling = {});

struct RopeOptions {
  int num_heads = 1;
  int num_kv_heads = 1;  // divides num_heads
  RopeFrequencies rope;
};

/// Input [B, T, (num_heads + 2 num_kv_heads) head_dim], packed [q | k | v] as in attention(). Returns the
/// same shape with q and k rotated by their positions. Backward saves nothing.
Tensor rope(Context& ctx, const Tensor& input, const RopeOptions& options);

}  // namespace trireme::ops
