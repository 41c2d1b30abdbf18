#include "models/gpt.h"

#include <fmt/ranges.h>

#include <cmath>

#include "models/tensor_cut.h"
#include "models/token_embedding.h"
#include "models/token_head.h"
#include "models/transformer_block.h"
#include "runtime/base/error.h"

namespace trireme {

GptConfig gpt_config_for_size(std::string_view size) {
  if (size == "124m") return {.layers = 12, .hidden = 768, .heads = 12};
  if (size == "350m") return {.layers = 24, .hidden = 1024, .heads = 16};
  if (size == "774m") return {.layers = 36, .hidden = 1280, .heads = 20};
  if (size == "1.5b") return {.layers = 48, .hidden = 1600, .heads = 25};
  if (size == "13b") return {.layers = 40, .hidden = 5120, .heads = 40, .seq_len = 2048};
  throw Error(ErrorCode::kInvalidInput,
              "gpt: there is no size '{}'; use {}, or give layers, hidden, heads and seq_len instead", size,
              fmt::join(kGptSizes, ", "));
}

BlockList build_gpt(const GptConfig& config) {
  TRIREME_CHECK(config.layers >= 1 && config.hidden >= 1 && config.heads >= 1 && config.vocab >= 1 &&
                    config.seq_len >= 1,
                "gpt: layers {}, hidden {}, heads {}, vocab {} and seq_len {} must all be positive",
                config.layers, config.hidden, config.heads, config.vocab, config.seq_len);
  // A typing error must not fill memory with blocks. The limit is far above any published network.
  constexpr std::int64_t kMaxLayers = 10000;
  TRIREME_CHECK(config.layers <= kMaxLayers, "gpt: {} layers exceed the maximum of {}", config.layers,
                kMaxLayers);
  TRIREME_CHECK(config.hidden % config.heads == 0, "gpt: hidden {} is not a multiple of heads {}",
                config.hidden, config.heads);
  check_tensor_cut("gpt", config.tensor_chunks, {"heads", config.heads}, {{"hidden", config.hidden}});
  constexpr float kStddev = 0.02f;
  const int cut = vocab_chunks(config.vocab, config.tensor_chunks);
  BlockList blocks;
  blocks.push_back(
      std::make_unique<TokenEmbedding>(TokenEmbeddingConfig{.vocab = config.vocab,
                                                            .hidden = config.hidden,
                                                            .positions = config.seq_len,
                                                            .dropout = config.dropout,
                                                            .chunks = cut,
                                                            .layer_chunks = config.tensor_chunks,
                                                            .init = Initializer::normal(kStddev)}));
  const TransformerBlockConfig layer{
      .hidden = config.hidden,
      .heads = config.heads,
      .dropout = config.dropout,
      .norm_epsilon = static_cast<float>(config.norm_epsilon),
      .init_stddev = kStddev,
      .residual_stddev = kStddev / std::sqrt(2.0f * static_cast<float>(config.layers)),
      .chunks = config.tensor_chunks};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    blocks.push_back(std::make_unique<TransformerBlock>(fmt::format("blocks.{}", i), layer));
  }
  blocks.push_back(
      std::make_unique<TokenHead>(TokenHeadConfig{.vocab = config.vocab,
                                                  .hidden = config.hidden,
                                                  .tied = config.tied,
                                                  .norm_epsilon = static_cast<float>(config.norm_epsilon),
                                                  .chunks = cut,
                                                  .layer_chunks = config.tensor_chunks,
                                                  .loss_parts = config.loss_parts,
                                                  .init_stddev = kStddev}));
  return blocks;
}

}  // namespace trireme
