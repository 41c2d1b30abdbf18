// Llama (Touvron et al. 2023; Grattafiori et al. 2024) as blocks: RMS norm, rotary positions, grouped
// queries, SwiGLU, no biases.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/block.h"
#include "runtime/ops/rope.h"

namespace trireme {

struct LlamaConfig {
  std::int64_t layers = 16;
  std::int64_t hidden = 2048;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 8;  // divides heads
  std::int64_t ffn = 8192;    // width of the MLP's gate and up projections
  std::int64_t vocab = 128256;
  std::int64_t seq_len = 2048;  // context in training; positions are not a table
  double rope_theta = 500000.0;
  ops::RopeScaling rope_scaling;
  double norm_epsilon = 1e-5;
  bool tied = false;      // the head uses the token table
  int tensor_chunks = 1;  // chunks of each layer; divides kv_heads and ffn
};

/// "15m" is the TinyStories model of Karpathy's llama2.c, for CPUs. "1b" and "3b" are Llama 3.2; "8b" is
/// Llama 3.1. Their contexts of 131,072 tokens are cut to 2048 (15m: 256).
inline constexpr std::string_view kLlamaSizes[] = {"15m", "1b", "3b", "8b"};

/// Throws Error(kInvalidInput) for a size that is not in kLlamaSizes.
LlamaConfig llama_config_for_size(std::string_view size);

/// The default width of the MLP: 8/3 hidden, rounded up to a multiple of 64. Its three matrices then have
/// about as many parameters as GPT's two.
std::int64_t default_llama_ffn(std::int64_t hidden);

/// layers + 2 blocks: "embedding", "blocks.0" ..., "head". Weights are normal(0, 0.02), projections into the
/// residual stream normal(0, 0.02 / sqrt(2 layers)), norms one. Throws Error(kInvalidInput) if heads does not
/// divide hidden, kv_heads does not divide heads, or the head width is odd.
BlockList build_llama(const LlamaConfig& config);

}  // namespace trireme
