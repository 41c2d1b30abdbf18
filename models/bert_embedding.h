// BERT's embedding: tokens, positions and token types, normalised.
#pragma once

#include "runtime/block.h"

namespace trireme {

inline constexpr float kBertInitStddev = 0.02f;

struct BertEmbeddingConfig {
  std::int64_t vocab = 1, hidden = 1;
  std::int64_t positions = 1;
  float dropout = 0.0f;
  float norm_epsilon = 1e-12f;
  int layer_chunks = 1;  // tensor chunks of the following blocks
};

class BertEmbedding final : public Block {
 public:
  explicit BertEmbedding(const BertEmbeddingConfig& config);
  /// tokens [B, T] int32, T <= positions -> [B, T, C]. For rows of documents, also outputs their key bounds.
  /// Each layer passes these to the next, because layers do not see the batch.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float dropout_, norm_epsilon_;
  int layer_chunks_;
  ParamRef tokens_, positions_, types_, norm_weight_, norm_bias_;
};

}  // namespace trireme
