#include "models/bert.h"

#include <fmt/ranges.h>

#include "models/bert_block.h"
#include "models/bert_embedding.h"
#include "models/document_class_head.h"
#include "models/masked_token_head.h"
#include "models/tensor_cut.h"
#include "runtime/base/error.h"

namespace trireme {

BertConfig bert_config_for_size(std::string_view size) {
  if (size == "tiny") return {.layers = 2, .hidden = 128, .heads = 2};
  if (size == "base") return {};
  if (size == "large") return {.layers = 24, .hidden = 1024, .heads = 16};
  throw Error(ErrorCode::kInvalidInput,
              "bert: there is no size '{}'; use {}, or give layers, hidden, heads and seq_len instead", size,
              fmt::join(kBertSizes, ", "));
}

BlockList build_bert(const BertConfig& config) {
  TRIREME_CHECK(config.layers >= 1 && config.hidden >= 1 && config.heads >= 1 && config.vocab >= 1 &&
                    config.seq_len >= 1 && config.classes >= 0,
                "bert: layers {}, hidden {}, heads {}, vocab {} and seq_len {} must all be positive, and "
                "classes {} not negative",
                config.layers, config.hidden, config.heads, config.vocab, config.seq_len, config.classes);
  constexpr std::int64_t kMaxLayers = 10000;  // see build_gpt
  TRIREME_CHECK(config.layers <= kMaxLayers, "bert: {} layers exceed the maximum of {}", config.layers,
                kMaxLayers);
  TRIREME_CHECK(config.hidden % config.heads == 0, "bert: hidden {} is not a multiple of heads {}",
                config.hidden, config.heads);
  check_tensor_cut("bert", config.tensor_chunks, {"heads", config.heads}, {{"hidden", config.hidden}});
  BlockList blocks;
  blocks.push_back(std::make_unique<BertEmbedding>(
      BertEmbeddingConfig{.vocab = config.vocab,
                          .hidden = config.hidden,
                          .positions = config.seq_len,
                          .dropout = config.dropout,
                          .norm_epsilon = static_cast<float>(config.norm_epsilon),
                          .layer_chunks = config.tensor_chunks}));
  const BertBlockConfig layer{.hidden = config.hidden,
                              .heads = config.heads,
                              .dropout = config.dropout,
                              .norm_epsilon = static_cast<float>(config.norm_epsilon),
                              .chunks = config.tensor_chunks};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    blocks.push_back(std::make_unique<BertBlock>(fmt::format("blocks.{}", i), layer));
  }
  if (config.classes > 0) {
    blocks.push_back(
        std::make_unique<DocumentClassHead>(DocumentClassHeadConfig{.hidden = config.hidden,
                                                                    .classes = config.classes,
                                                                    .dropout = config.dropout,
                                                                    .layer_chunks = config.tensor_chunks}));
  } else {
    blocks.push_back(std::make_unique<MaskedTokenHead>(
        config.vocab, config.hidden, static_cast<float>(config.norm_epsilon), config.tensor_chunks));
  }
  return blocks;
}

}  // namespace trireme
