// Llama (Touvron et al. 2023; Grattafiori et al. 2024) as blocks: RMS norm, rotary positions, grouped
// queries, SwiGLU. The switches of the config turn it into Qwen2, Qwen3, Mistral, SmolLM3, OLMo 2 and Gemma
// 3: see the table in models/README.md. Experts in place of the MLP would be another MlpGate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/decoder_switches.h"
#include "runtime/block.h"
#include "runtime/ops/rope.h"

namespace trireme {

/// Attention of a layer, with its letter in a pattern.
enum class LayerKind : char {
  kFull = 'f',
  kWindow = 'w',
  kFullWithoutRope = 'n',
};

struct LlamaConfig {
  std::int64_t layers = 16;
  std::int64_t hidden = 2048;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 8;    // divides heads
  std::int64_t head_width = 0;  // 0: hidden / heads
  std::int64_t ffn = 8192;      // width of the MLP's gate and up projections
  std::int64_t vocab = 128256;
  std::int64_t seq_len = 2048;  // context in training; positions are not a table
  double rope_theta = 500000.0;
  ops::RopeScaling rope_scaling;
  double rope_local_theta = 0.0;  // base of layers with a window, which have no scaling; 0: as other layers
  double norm_epsilon = 1e-5;
  bool qkv_bias = false;           // biases of the projections to queries, keys and values
  QkNorm qk_norm = QkNorm::kNone;  // kWhole needs tensor_chunks 1
  NormPosition norm_position = NormPosition::kBefore;
  bool norm_unit_offset = false;  // norms multiply by 1 + weight, and weights start at 0
  MlpGate mlp_gate = MlpGate::kSilu;
  double embedding_scale = 1.0;  // factor of the embeddings
  double query_scalar = 0.0;     // scores are divided by its square root; 0: head_dim()
  std::int64_t window = 0;       // tokens that a token of a windowed layer sees; 0: none
  std::string layer_pattern;     // a letter of LayerKind for each layer, repeated; empty: one kind
  bool tied = false;             // the head uses the token table
  int tensor_chunks = 1;         // chunks of each layer; divides kv_heads and ffn
  std::int64_t loss_parts = 1;   // see TokenHeadConfig

  std::int64_t head_dim() const { return head_width > 0 ? head_width : hidden / heads; }
  LayerKind kind_of_layer(std::int64_t layer) const;
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
/// residual stream normal(0, 0.02 / sqrt(2 layers)), norms one, biases zero. Throws Error(kInvalidInput) if
/// heads does not divide hidden and head_width is 0, kv_heads does not divide heads, the head width is odd,
/// qk_norm kWhole has more than one of tensor_chunks, or layer_pattern has another letter or a window that is
/// 0.
BlockList build_llama(const LlamaConfig& config);

}  // namespace trireme
