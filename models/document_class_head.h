// BERT's classification head: the pooler, and a class for each document.
#pragma once

#include "runtime/block.h"

namespace trireme {

struct DocumentClassHeadConfig {
  std::int64_t hidden = 1, classes = 2;
  float dropout = 0.0f;  // before the classifier
  int layer_chunks = 1;  // tensor chunks of the blocks before it
};

/// Classifies a document at its first token, wherever that is in the row. Only this token has a target, so
/// packed rows need no special handling. The pooler also runs for the other tokens, which costs 1 / (12
/// layers) of the model's arithmetic.
class DocumentClassHead final : public Block {
 public:
  explicit DocumentClassHead(const DocumentClassHeadConfig& config);
  /// [B, T, C] -> the loss over batch.targets [B, T], or without targets the logits [B, T, classes].
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float dropout_;
  ParamRef pooler_weight_, pooler_bias_, weight_, bias_;
};

}  // namespace trireme
