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
  TRIREME_CHECK(!config.qk_norm || config.tensor_chunks == 1,
                "llama: qk_norm is not computed in tensor chunks, because all heads share its weights; use "
                "tensor_chunks 1, not {}",
                config.tensor_chunks);
  constexpr float kStddev = 0.02f;
  const int cut = vocab_chunks(config.vocab, config.tensor_chunks);
  BlockList blocks;
  blocks.push_back(
      std::make_unique<TokenEmbedding>(TokenEmbeddingConfig{.vocab = config.vocab,
                                                            .hidden = config.hidden,
                                                            .chunks = cut,
                                                            .layer_chunks = config.tensor_chunks,
                                                            .init = Initializer::normal(kStddev)}));
  const LlamaBlockConfig layer{
      .hidden = config.hidden,
      .heads = config.heads,
      .kv_heads = config.kv_heads,
      .head_dim = config.head_dim(),
      .ffn = config.ffn,
      .rope = ops::rope_frequencies(config.head_dim(), config.rope_theta, config.rope_scaling),
      .qkv_bias = config.qkv_bias,
      .qk_norm = config.qk_norm,
      .norm_epsilon = static_cast<float>(config.norm_epsilon),
      .init_stddev = kStddev,
      .residual_stddev = kStddev / std::sqrt(2.0f * static_cast<float>(config.layers)),
      .chunks = config.tensor_chunks};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    blocks.push_back(std::make_unique<LlamaBlock>(fmt::format("blocks.{}", i), layer));
  }
  blocks.push_back(
      std::make_unique<TokenHead>(TokenHeadConfig{.vocab = config.vocab,
                                                  .hidden = config.hidden,
                                                  .tied = config.tied,
                                                  .rms_norm = true,
                                                  .norm_epsilon = static_cast<float>(config.norm_epsilon),
                                                  .chunks = cut,
                                                  .layer_chunks = config.tensor_chunks,
                                                  .init_stddev = kStddev}));
  return blocks;
}

}  // namespace trireme
