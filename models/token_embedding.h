// Token embedding, with learned positions or without, and dropout.
#pragma once

#include <vector>

#include "runtime/block.h"

namespace trireme {

struct TokenEmbeddingConfig {
  std::int64_t vocab = 1, hidden = 1;
  std::int64_t positions = 0;  // rows of the position table; 0: none
  float dropout = 0.0f;
  int chunks = 1;  // of the table's rows; divides vocab: [Note: tensor chunks] in runtime/parameter_slice.h
  int layer_chunks = 1;  // of the blocks behind it
  float init_stddev = 0.02f;
};

class TokenEmbedding final : public Block {
 public:
  explicit TokenEmbedding(const TokenEmbeddingConfig& config);
  /// tokens [B, T] int32, T <= positions where there are any -> [B, T, C].
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float dropout_;
  std::vector<ParamRef> tokens_;  // by chunk
  ParamRef positions_;
};

}  // namespace trireme
