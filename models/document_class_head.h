// BERT's head of classification: the pooler, and a class for each document.
#pragma once

#include "runtime/block.h"

namespace trireme {

struct DocumentClassHeadConfig {
  std::int64_t hidden = 1, classes = 2;
  float dropout = 0.0f;  // before the classifier
  int layer_chunks = 1;  // tensor chunks of the blocks before it
};

/// A document is read at its first token, wherever that is in the row: there its target is, and all other
/// tokens have none. So packed rows need nothing of their own. The pooler runs for the other tokens, too, at
/// 1 / (12 layers) of the model's arithmetic.
class DocumentClassHead final : public Block {
 public:
  explicit DocumentClassHead(const DocumentClassHeadConfig& config);
  /// [B, T, C] -> the loss over batch.targets [B, T], or the logits [B, T, classes] when there are none.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float dropout_;
  ParamRef pooler_weight_, pooler_bias_, weight_, bias_;
};

}  // namespace trireme
