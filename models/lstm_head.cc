#include "models/lstm_head.h"

#include <utility>

#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/linear.h"

namespace trireme {

LstmHead::LstmHead(const LstmHeadConfig& config) : Block("decoder") {
  weight_ = declare({.name = "weight",
                     .shape = {config.vocab, config.hidden},
                     .init = config.init,
                     .tied_to = config.tied ? "encoder.weight" : ""});
  bias_ = declare({.name = "bias", .shape = {config.vocab}, .init = Initializer::zeros(), .decay = false});
}

Activations LstmHead::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  Tensor logits = ops::linear(ctx, input.at(0), weight_, {.bias = bias_});
  if (!batch.targets.defined()) return {std::move(logits)};
  return {ops::softmax_cross_entropy(ctx, std::move(logits), batch.targets, batch.inv_num_targets)};
}

}  // namespace trireme
