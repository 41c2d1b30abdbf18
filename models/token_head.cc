#include "models/token_head.h"

#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"

namespace trireme {

TokenHead::TokenHead(const TokenHeadConfig& config) : Block("head") {
  norm_weight_ = declare({.name = "norm.weight",
                          .shape = {config.hidden},
                          .init = Initializer::ones(),
                          .decay = false,
                          .center = 1.0f});
  if (!config.rms_norm) {
    norm_bias_ = declare(
        {.name = "norm.bias", .shape = {config.hidden}, .init = Initializer::zeros(), .decay = false});
  }
  weight_ = declare({.name = "weight",
                     .shape = {config.vocab, config.hidden},
                     .init = Initializer::normal(config.init_stddev),
                     .tied_to = config.tied ? "embedding.tokens" : ""});
}

Activations TokenHead::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  const Tensor x = norm_bias_.defined() ? ops::layer_norm(ctx, input.at(0), norm_weight_, norm_bias_)
                                        : ops::rms_norm(ctx, input.at(0), norm_weight_);
  Tensor logits = ops::linear(ctx, x, weight_);
  if (!batch.targets.defined()) return {std::move(logits)};
  return {ops::softmax_cross_entropy(ctx, std::move(logits), batch.targets, batch.inv_num_targets)};
}

}  // namespace trireme
