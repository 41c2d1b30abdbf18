#include "models/lstm.h"

#include <fmt/ranges.h>

#include "models/lstm_head.h"
#include "models/lstm_layer.h"
#include "models/token_embedding.h"
#include "runtime/base/error.h"

namespace trireme {

LstmConfig lstm_config_for_size(std::string_view size) {
  if (size == "ptb-medium") return {};
  if (size == "ptb-large") return {.hidden = 1500, .embedding_size = 1500};
  if (size == "char") return {.hidden = 512, .embedding_size = 512, .vocab = 0, .seq_len = 128};
  throw Error(ErrorCode::kInvalidInput,
              "lstm: there is no size '{}'; use {}, or give layers, hidden and seq_len instead", size,
              fmt::join(kLstmSizes, ", "));
}

BlockList build_lstm(const LstmConfig& config) {
  TRIREME_CHECK(config.layers >= 1 && config.hidden >= 1 && config.embedding_size >= 1 && config.vocab >= 1 &&
                    config.seq_len >= 1,
                "lstm: layers {}, hidden {}, embedding_size {}, vocab {} and seq_len {} must all be positive",
                config.layers, config.hidden, config.embedding_size, config.vocab, config.seq_len);
  constexpr std::int64_t kMaxLayers = 10000;  // see build_gpt
  TRIREME_CHECK(config.layers <= kMaxLayers, "lstm: {} layers exceed the maximum of {}", config.layers,
                kMaxLayers);
  TRIREME_CHECK(
      !config.tied || config.embedding_size == config.hidden,
      "lstm: a tied head needs an embedding as wide as the layers; embedding_size is {}, hidden is {}",
      config.embedding_size, config.hidden);
  const Initializer table = Initializer::uniform(0.1f);
  BlockList blocks;
  blocks.push_back(std::make_unique<TokenEmbedding>(TokenEmbeddingConfig{.name = "encoder",
                                                                         .table = "weight",
                                                                         .vocab = config.vocab,
                                                                         .hidden = config.embedding_size,
                                                                         .dropout = config.dropout,
                                                                         .init = table}));
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::int64_t inputs = i == 0 ? config.embedding_size : config.hidden;
    blocks.push_back(std::make_unique<LstmLayer>(
        LstmLayerConfig{.index = i, .inputs = inputs, .hidden = config.hidden, .dropout = config.dropout}));
  }
  blocks.push_back(std::make_unique<LstmHead>(
      LstmHeadConfig{.vocab = config.vocab, .hidden = config.hidden, .tied = config.tied, .init = table}));
  return blocks;
}

}  // namespace trireme
