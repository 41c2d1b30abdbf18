// BERT's head of masked language modelling: a transform, logits with the token table, and the loss.
#pragma once

#include "runtime/block.h"

namespace trireme {

class MaskedTokenHead final : public Block {
 public:
  /// `layer_chunks`: tensor chunks of the blocks before it.
  MaskedTokenHead(std::int64_t vocab, std::int64_t hidden, int layer_chunks = 1);
  /// [B, T, C] -> the loss over batch.targets, or the logits [B, T, V] when there are none.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  ParamRef transform_weight_, transform_bias_, norm_weight_, norm_bias_, weight_, bias_;
};

}  // namespace trireme
