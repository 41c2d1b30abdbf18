#include "models/masked_token_head.h"

#include "models/bert_embedding.h"
#include "models/sequence_calls.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/sequence_shard.h"

namespace trireme {

MaskedTokenHead::MaskedTokenHead(std::int64_t vocab, std::int64_t hidden, float norm_epsilon,
                                 int layer_chunks)
    : Block("head"), norm_epsilon_(norm_epsilon) {
  if (layer_chunks > 1) declare_sequence_calls(whole_head_sequence_calls());
  const Initializer init = Initializer::normal(kBertInitStddev);
  const auto zeros = [&](const char* key, std::int64_t n) {
    return declare({.name = key, .shape = {n}, .init = Initializer::zeros(), .decay = false});
  };
  transform_weight_ = declare({.name = "transform.weight", .shape = {hidden, hidden}, .init = init});
  transform_bias_ = zeros("transform.bias", hidden);
  norm_weight_ = declare({.name = "norm.weight",
                          .shape = {hidden},
                          .init = Initializer::ones(),
                          .decay = false,
                          .center = 1.0f});
  norm_bias_ = zeros("norm.bias", hidden);
  weight_ =
      declare({.name = "weight", .shape = {vocab, hidden}, .init = init, .tied_to = "embedding.tokens"});
  bias_ = zeros("bias", vocab);
}

Activations MaskedTokenHead::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  Tensor x = ops::linear(ctx, ops::to_whole(ctx, input.at(0)), transform_weight_,
                         {.bias = transform_bias_, .activation = Activation::kGelu});
  x = ops::layer_norm(ctx, x, norm_weight_, norm_bias_, {.epsilon = norm_epsilon_});
  Tensor logits = ops::linear(ctx, x, weight_, {.bias = bias_});
  if (!batch.targets.defined()) return {std::move(logits)};
  return {ops::softmax_cross_entropy(ctx, std::move(logits), batch.targets, batch.inv_num_targets)};
}

}  // namespace trireme
