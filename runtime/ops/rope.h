// Rotary positions (Su et al. 2021) of packed queries, keys and values.
#pragma once

#include "kernels/backend.h"
#include "runtime/context.h"

namespace trireme::ops {

/// Context extension by slower rotation.
struct RopeScaling {
  /// kLinear (Chen et al. 2023): every pair turns `factor` times slower. The other kinds slow pairs that turn
  /// less than low_freq_factor times in original_context positions by the whole factor, and pairs that turn
  /// more than high_freq_factor times not at all. Between the two bounds, kLlama3 (Llama 3.1) interpolates
  /// the speed over the number of turns, and kYarn (Peng et al. 2023) over the index of the pair, whose
  /// bounds are rounded outwards.
  enum class Kind : std::uint8_t { kLlama3, kLinear, kYarn };
  Kind kind = Kind::kLlama3;
  double factor = 1.0;                                   // 1: no scaling
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // kYarn: usually 1 and 32
  std::int64_t original_context = 8192;
  double attention_factor = 0.0;  // of queries and of keys; 0: rope_attention_factor() has the default

  bool operator==(const RopeScaling&) const = default;
};

/// The factor of queries and of keys after rotation: scaling.attention_factor, or its default. The default is
/// 0.1 ln(factor) + 1 for kYarn, and 1 for other kinds.
double rope_attention_factor(const RopeScaling& scaling);

/// Pair i turns by theta^(-2 i / head_dim) radians per position, scaled. Throws Error(kInvalidInput) for an
/// odd head_dim or one above 2 RopeFrequencies::kMaxPairs.
RopeFrequencies rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling = {});

struct RopeOptions {
  int num_heads = 1;
  int num_kv_heads = 1;  // divides num_heads
  RopeFrequencies rope;
};

/// Input [B, T, (num_heads + 2 num_kv_heads) head_dim], packed [q | k | v] as in attention(). Returns the
/// same shape with q and k rotated by their positions, in the memory of `input` if nothing else holds it.
/// Backward saves nothing.
Tensor rope(Context& ctx, Tensor input, const RopeOptions& options);

}  // namespace trireme::ops
