// Token embedding, with or without learned positions, and dropout.
#pragma once

#include <string>
#include <vector>

#include "runtime/block.h"

namespace trireme {

struct TokenEmbeddingConfig {
  std::string name = "embedding", table = "tokens";  // of the block and of its table
  std::int64_t vocab = 1, hidden = 1;
  std::int64_t positions = 0;  // rows of the position table; 0: none
  float scale = 1.0f;          // factor of the tokens' embeddings; needs positions = 0
  float dropout = 0.0f;
  int chunks = 1;        // chunks of the table's rows; divides vocab: see [Note: tensor chunks]
  int layer_chunks = 1;  // chunks of the following blocks
  Initializer init = Initializer::normal(0.02f);
};

class TokenEmbedding final : public Block {
 public:
  explicit TokenEmbedding(const TokenEmbeddingConfig& config);
  /// tokens [B, T] int32 -> [B, T, C], and the bounds of keys if the batch has them. T <= positions if there
  /// are positions.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  /// With learned positions, which restart with each document.
  Activations embed_documents(Context& ctx, const Batch& batch) const;

  float scale_, dropout_;
  std::vector<ParamRef> tokens_;  // by chunk
  ParamRef positions_;
};

}  // namespace trireme
