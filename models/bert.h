// BERT (Devlin et al. 2019) as blocks: embedding, post-norm transformer blocks, and a head of masked language
// modelling or of classification.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/block.h"

namespace trireme {

struct BertConfig {
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t vocab = 30522;
  std::int64_t seq_len = 512;  // longest context: rows of the position table
  float dropout = 0.0f;        // on embeddings, attention probabilities and both residual branches
  std::int64_t classes = 0;    // of documents; 0: masked language modelling
  /// Of the layers; a power of two that divides heads: [Note: tensor chunks] in runtime/parameter_slice.h.
  int tensor_chunks = 1;
};

/// "tiny": that of Turc et al. 2019, for CPUs. "base", "large": the uncased ones of Devlin et al.
inline constexpr std::string_view kBertSizes[] = {"tiny", "base", "large"};

/// Throws Error(kInvalidInput) for a size that is none of kBertSizes.
BertConfig bert_config_for_size(std::string_view size);

/// layers + 2 blocks: "embedding", "blocks.0" ..., "head", the one thing that depends on the task. Weights
/// are normal(0, 0.02), norms one, biases zero. The GELU is exact. Throws Error(kInvalidInput) when heads
/// does not divide hidden, or tensor_chunks heads.
BlockList build_bert(const BertConfig& config);

}  // namespace trireme
