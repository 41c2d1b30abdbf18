// BERT's head for masked language modelling: a transform, logits from the token table, and the loss.
#pragma once

#include "runtime/block.h"

namespace trireme {

class MaskedTokenHead final : public Block {
 public:
  /// `layer_chunks` is the number of tensor chunks of the preceding blocks.
  MaskedTokenHead(std::int64_t vocab, std::int64_t hidden, float norm_epsilon, int layer_chunks = 1);
  /// [B, T, C] -> the loss over batch.targets, or without targets the logits [B, T, V]. With
  /// batch.target_positions, only the tokens that have targets are computed.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float norm_epsilon_;
  ParamRef transform_weight_, transform_bias_, norm_weight_, norm_bias_, weight_, bias_;
};

}  // namespace trireme
