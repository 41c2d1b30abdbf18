// Final norm, projection to the vocabulary, and the loss.
#pragma once

#include "models/gpt.h"
#include "runtime/block.h"

namespace trireme {

class GptHead final : public Block {
 public:
  GptHead(const GptConfig& config, float init_stddev);
  /// [B, T, C] -> the loss over batch.targets, or the logits [B, T, V] when there are none.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  ParamRef norm_weight_, norm_bias_, weight_;
};

}  // namespace trireme
