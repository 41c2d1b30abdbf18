// The head of an LSTM language model: a linear layer with a bias, and the loss.
#pragma once

#include <cstdint>

#include "runtime/block.h"

namespace trireme {

struct LstmHeadConfig {
  std::int64_t vocab = 1, hidden = 1;
  bool tied = false;  // the weight is the table "encoder.weight"
  Initializer init;   // of the weight
};

class LstmHead final : public Block {
 public:
  explicit LstmHead(const LstmHeadConfig& config);
  /// [B, T, hidden] -> the loss over batch.targets, or without targets the logits [B, T, vocab].
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  ParamRef weight_, bias_;
};

}  // namespace trireme
