// Token and position embedding of GPT, with dropout.
#pragma once

#include "models/gpt.h"
#include "runtime/block.h"

namespace trireme {

class GptEmbedding final : public Block {
 public:
  GptEmbedding(const GptConfig& config, float init_stddev);
  /// tokens [B, T] int32, T <= seq_len -> [B, T, C].
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float dropout_;
  ParamRef tokens_, positions_;
};

}  // namespace trireme
