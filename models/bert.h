// BERT (Devlin et al. 2019) as blocks: embedding, post-norm transformer blocks, and a head for masked
// language modelling or for classification.
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
  double norm_epsilon = 1e-12;
  std::int64_t classes = 0;  // number of document classes; 0: masked language modelling
  /// The layers' tensor chunks, a power of two that divides heads: [Note: tensor chunks] in
  /// runtime/parameter_slice.h.
  int tensor_chunks = 1;
};

/// "tiny" is from Turc et al. 2019, for CPUs. "base" and "large" are the uncased models of Devlin et al.
inline constexpr std::string_view kBertSizes[] = {"tiny", "base", "large"};

/// Throws Error(kInvalidInput) for a size that is not in kBertSizes.
BertConfig bert_config_for_size(std::string_view size);

/// layers + 2 blocks: "embedding", "blocks.0" ..., "head". Only the head depends on the task. Weights are
/// normal(0, 0.02), norms one, biases zero. The GELU is exact. Throws Error(kInvalidInput) if heads does not
/// divide hidden, or tensor_chunks does not divide heads.
BlockList build_bert(const BertConfig& config);

}  // namespace trireme
