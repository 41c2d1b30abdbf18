#include "models/llama.h"

#include <fmt/ranges.h>

#include <cmath>

#include "models/llama_block.h"
#include "models/tensor_cut.h"
#include "models/token_embedding.h"
#include "models/token_head.h"
#include "runtime/base/error.h"

namespace trireme {

LlamaConfig llama_config_for_size(std::string_view size) {
  if (size == "15m") {
    return {.layers = 6,
            .hidden = 288,
            .heads = 6,
            .kv_heads = 6,
            .ffn = 768,
            .vocab = 32000,
            .seq_len = 256,
            .rope_theta = 10000.0,
            .tied = true};
  }
  if (size == "1b") return {.rope_scaling = {.factor = 32.0}, .tied = true};
  if (size == "3b") {
    return {.layers = 28, .hidden = 3072, .heads = 24, .rope_scaling = {.factor = 32.0}, .tied = true};
  }
  if (size == "8b") return {.layers = 32, .hidden = 4096, .ffn = 14336, .rope_scaling = {.factor = 8.0}};
  throw Error(ErrorCode::kInvalidInput,
              "llama: there is no size '{}'; use {}, or give layers, hidden, heads and seq_len instead", size,
              fmt::join(kLlamaSizes, ", "));
}

std::int64_t default_llama_ffn(std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 64;
  return (8 * hidden + 3 * kMultiple - 1) / (3 * kMultiple) * kMultiple;
}

LayerKind LlamaConfig::kind_of_layer(std::int64_t layer) const {
  if (layer_pattern.empty()) return window > 0 ? LayerKind::kWindow : LayerKind::kFull;
  return static_cast<LayerKind>(layer_pattern[static_cast<std::size_t>(layer) % layer_pattern.size()]);
}

namespace {

void check_layer_pattern(const LlamaConfig& config) {
  for (const char letter : config.layer_pattern) {
    const auto kind = static_cast<LayerKind>(letter);
    TRIREME_CHECK(
        kind == LayerKind::kFull || kind == LayerKind::kWindow || kind == LayerKind::kFullWithoutRope,
        "llama: layer_pattern \"{}\" has the letter '{}'; use f, w and n", config.layer_pattern, letter);
    TRIREME_CHECK(kind != LayerKind::kWindow || config.window > 0,
                  "llama: layer_pattern \"{}\" has layers with a window, and window is {}",
                  config.layer_pattern, config.window);
  }
  TRIREME_CHECK(config.window >= 0 && config.query_scalar >= 0 && config.embedding_scale > 0,
                "llama: window {} and query_scalar {} must not be negative, and embedding_scale {} must be "
                "positive",
                config.window, config.query_scalar, config.embedding_scale);
}

LlamaBlockConfig layer_config(const LlamaConfig& config, LayerKind kind, float stddev) {
  const bool local = kind == LayerKind::kWindow && config.rope_local_theta > 0;
  const bool rotates = kind != LayerKind::kFullWithoutRope;
  const ops::RopeScaling scaling = local || !rotates ? ops::RopeScaling{} : config.rope_scaling;
  const double theta = local ? config.rope_local_theta : config.rope_theta;
  LlamaBlockConfig layer{.hidden = config.hidden,
                         .heads = config.heads,
                         .kv_heads = config.kv_heads,
                         .head_dim = config.head_dim(),
                         .ffn = config.ffn,
                         .window = kind == LayerKind::kWindow ? config.window : 0,
                         .qkv_bias = config.qkv_bias,
                         .qk_norm = config.qk_norm,
                         .norm_position = config.norm_position,
                         .norm_unit_offset = config.norm_unit_offset,
                         .mlp_gate = config.mlp_gate,
                         .norm_epsilon = static_cast<float>(config.norm_epsilon),
                         .init_stddev = stddev,
                         .residual_stddev = stddev / std::sqrt(2.0f * static_cast<float>(config.layers)),
                         .chunks = config.tensor_chunks};
  if (rotates) layer.rope = ops::rope_frequencies(config.head_dim(), theta, scaling);
  // A factor of queries and of keys is its square for the scores.
  const double factor = ops::rope_attention_factor(scaling);
  if (factor != 1.0 || config.query_scalar > 0) {
    const double scalar = config.query_scalar > 0 ? config.query_scalar : static_cast<double>(layer.head_dim);
    layer.score_scale = static_cast<float>(factor * factor / std::sqrt(scalar));
  }
  return layer;
}

}  // namespace

BlockList build_llama(const LlamaConfig& config) {
  TRIREME_CHECK(
      config.layers >= 1 && config.hidden >= 1 && config.heads >= 1 && config.kv_heads >= 1 &&
          config.ffn >= 1 && config.vocab >= 1 && config.seq_len >= 1,
      "llama: layers {}, hidden {}, heads {}, kv_heads {}, ffn {}, vocab {} and seq_len {} must all "
      "be positive",
      config.layers, config.hidden, config.heads, config.kv_heads, config.ffn, config.vocab, config.seq_len);
  constexpr std::int64_t kMaxLayers = 10000;  // see build_gpt
  TRIREME_CHECK(config.layers <= kMaxLayers, "llama: {} layers exceed the maximum of {}", config.layers,
                kMaxLayers);
  TRIREME_CHECK(config.head_width >= 0, "llama: head_width {} must not be negative", config.head_width);
  TRIREME_CHECK(config.head_width > 0 || config.hidden % config.heads == 0,
                "llama: hidden {} is not a multiple of heads {}, and head_width is 0", config.hidden,
                config.heads);
  TRIREME_CHECK(config.heads % config.kv_heads == 0, "llama: heads {} is not a multiple of kv_heads {}",
                config.heads, config.kv_heads);
  check_tensor_cut("llama", config.tensor_chunks, {"kv_heads", config.kv_heads},
                   {{"hidden", config.hidden},
                    {"the width of all heads,", config.head_dim() * config.heads},
                    {"the width of all kv_heads,", config.head_dim() * config.kv_heads},
                    {"ffn", config.ffn}});
  TRIREME_CHECK(
      config.qk_norm != QkNorm::kWhole || config.tensor_chunks == 1,
      "llama: qk_norm of the whole vector is not computed in tensor chunks; use tensor_chunks 1, not "
      "{}",
      config.tensor_chunks);
  check_layer_pattern(config);
  constexpr float kStddev = 0.02f;
  const int cut = vocab_chunks(config.vocab, config.tensor_chunks);
  BlockList blocks;
  blocks.push_back(std::make_unique<TokenEmbedding>(
      TokenEmbeddingConfig{.vocab = config.vocab,
                           .hidden = config.hidden,
                           .scale = static_cast<float>(config.embedding_scale),
                           .chunks = cut,
                           .layer_chunks = config.tensor_chunks,
                           .init = Initializer::normal(kStddev)}));
  for (std::int64_t i = 0; i < config.layers; ++i) {
    blocks.push_back(std::make_unique<LlamaBlock>(fmt::format("blocks.{}", i),
                                                  layer_config(config, config.kind_of_layer(i), kStddev)));
  }
  blocks.push_back(
      std::make_unique<TokenHead>(TokenHeadConfig{.vocab = config.vocab,
                                                  .hidden = config.hidden,
                                                  .tied = config.tied,
                                                  .rms_norm = true,
                                                  .norm_unit_offset = config.norm_unit_offset,
                                                  .norm_epsilon = static_cast<float>(config.norm_epsilon),
                                                  .chunks = cut,
                                                  .layer_chunks = config.tensor_chunks,
                                                  .loss_parts = config.loss_parts,
                                                  .init_stddev = kStddev}));
  return blocks;
}

}  // namespace trireme
