#include "models/document_class_head.h"

#include "models/bert_embedding.h"
#include "models/sequence_calls.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/sequence_shard.h"

namespace trireme {

DocumentClassHead::DocumentClassHead(const DocumentClassHeadConfig& config)
    : Block("head"), dropout_(config.dropout) {
  if (config.layer_chunks > 1) declare_sequence_calls(whole_head_sequence_calls());
  const auto declare_weight = [&](const char* key, std::int64_t out) {
    return declare(
        {.name = key, .shape = {out, config.hidden}, .init = Initializer::normal(kBertInitStddev)});
  };
  const auto declare_bias = [&](const char* key, std::int64_t out) {
    return declare({.name = key, .shape = {out}, .init = Initializer::zeros(), .decay = false});
  };
  pooler_weight_ = declare_weight("pooler.weight", config.hidden);
  pooler_bias_ = declare_bias("pooler.bias", config.hidden);
  weight_ = declare_weight("classifier.weight", config.classes);
  bias_ = declare_bias("classifier.bias", config.classes);
}

Activations DocumentClassHead::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  Tensor x = ops::linear(ctx, ops::to_whole(ctx, input.at(0)), pooler_weight_,
                         {.bias = pooler_bias_, .activation = Activation::kTanh});
  x = ops::dropout(ctx, x, dropout_);
  Tensor logits = ops::linear(ctx, x, weight_, {.bias = bias_});
  if (!batch.targets.defined()) return {std::move(logits)};
  return {ops::softmax_cross_entropy(ctx, std::move(logits), batch.targets, batch.inv_num_targets)};
}

}  // namespace trireme
